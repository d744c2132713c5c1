"""The part of a report that sets predicted beside measured speed-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import cast

import plotly.graph_objects as go

from playground.analysis.benchmark import Sample
from playground.analysis.cost_curve import CostCurve
from playground.analysis.cost_report import cost_figure, cost_sentences
from playground.analysis.prediction import TOLERANCE, Prediction, SpeedModel, halves, predict
from playground.analysis.section import Section
from playground.analysis.what_if import measured_scenario
from playground.decoding.codec import JSON

DEFINITIONS = f"""\
The speed model is fitted on half of the questions, every other one of each category, and predicts the other half. A
step takes what the cost curve says of a pass over as many tokens as the lane's passes read, and what drafting and the
rest took where it was fitted; it brings as many tokens as it did there. Of the half that is predicted only the lengths
of prompts and plain answers are used. Predictions that are more than {TOLERANCE:.0%} off are findings, named with
the greatest difference between what was expected of a step and what it was. alpha: the chance per guess that gives the
measured tokens per step in the method's formula: a chain's (Leviathan et al. 2023, equation 1), a tree's (Cai et al.
2024, section 2.3.3), or lookahead's (Fu et al. 2024, section 4)."""


def prediction_section(
    samples: Sequence[Sample], baseline: str, target: CostCurve, drafts: Mapping[str, CostCurve]
) -> Section:
    """Predicted beside measured, or why there is no prediction."""
    title = "Predicted and measured"
    found = predict(samples, baseline, target, drafts)
    if found is None:
        few = "One question cannot be halved: ask at least two for a prediction of speed-ups."
        return Section("speed_model", title, told=[few])
    model, predictions = found
    fitted, held = halves(samples)
    scenarios = {one: measured_scenario(model, one, baseline) for one in model.lanes}
    table = [["lane", "predicted", "measured", "error", "tokens/step, fitted", "predicted half", "alpha"]]
    for one in predictions:
        scenario = scenarios[one.lane]
        table.append(
            [
                one.lane,
                f"{one.predicted:.2f}",
                f"{one.measured.median:.2f} ({one.measured.low:.2f} to {one.measured.high:.2f})",
                f"{one.error:+.0%}",
                *(f"{tokens:.2f}" for tokens in one.tokens),
                f"{scenario.alpha:.2f}" if scenario is not None else "",
            ]
        )
    curves = list({curve.model: curve for curve in (target, *drafts.values())}.values())
    told = [
        f"Questions that were fitted: {len(fitted)}, predicted: {len(held)}. The baseline's passes took "
        f"{model.scale:.2f} times what the cost curve says.",
        *prediction_sentences(predictions),
        *(f"{curve.model}: {told}" for curve in curves for told in cost_sentences(curve)),
        DEFINITIONS,
    ]
    return Section(
        "speed_model",
        title,
        table,
        told,
        [prediction_figure(predictions), cost_figure(curves)],
        _data(model, predictions, scenarios),
    )


def prediction_sentences(predictions: Sequence[Prediction]) -> list[str]:
    """The findings, or that there is none."""
    found = [
        f"Finding: the prediction for {one.lane} is {abs(one.error):.0%} too {'high' if one.error > 0 else 'low'} "
        f"({one.predicted:.2f} predicted, {one.measured.median:.2f} measured). Likely cause: {one.cause}."
        for one in predictions
        if one.cause
    ]
    if found or not predictions:
        return found
    worst = max(predictions, key=lambda one: abs(one.error))
    return [f"Every prediction is within {TOLERANCE:.0%}; the worst is {worst.lane}'s, {worst.error:+.0%}."]


def prediction_figure(predictions: Sequence[Prediction]) -> go.Figure:
    """Predicted against measured speed-ups: a point per lane, the diagonal, and the tolerance on both sides of it."""
    measured = [one.measured for one in predictions]
    figure = go.Figure(
        go.Scatter(
            x=[one.median for one in measured],
            y=[one.predicted for one in predictions],
            error_x={
                "array": [one.high - one.median for one in measured],
                "arrayminus": [one.median - one.low for one in measured],
            },
            text=[one.lane for one in predictions],
            mode="markers+text",
            textposition="top center",
            name="lanes",
        )
    )
    most = 1.1 * max([1.0, *(one.high for one in measured), *(one.predicted for one in predictions)])
    for slope, dash in ((1.0, "solid"), (1 + TOLERANCE, "dot"), (1 - TOLERANCE, "dot")):
        figure.add_scatter(
            x=[0, most], y=[0, slope * most], mode="lines", line={"dash": dash, "color": "#888"}, showlegend=False
        )
    figure.update_layout(
        template="none",
        title=f"Speed-ups, predicted and measured (dotted: {TOLERANCE:.0%} off)",
        xaxis={"title": "measured", "range": [0, most]},
        yaxis={"title": "predicted", "range": [0, most]},
        showlegend=False,
    )
    return figure


def _data(model: SpeedModel, predictions: Sequence[Prediction], scenarios: Mapping[str, object]) -> JSON:
    return cast(
        JSON,
        {
            "model": asdict(model),
            "predictions": [asdict(one) for one in predictions],
            "scenarios": {lane: asdict(one) for lane, one in scenarios.items() if one is not None},  # type: ignore[call-overload]
        },
    )
