"""Cost curves as a table and as a figure, with the knee and the memory-bandwidth limit."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import plotly.graph_objects as go

from playground.analysis.cost_curve import KNEE, CostCurve

BUSY = 0.2  # a median so far above the least of the same passes tells of other work on the machine
COLOURS = ("#2563eb", "#c2410c", "#047857", "#7c3aed")

DEFINITIONS = f"""\
Each time is the median over repeats of one pass of the target, all logits included, drafting and bookkeeping not; x is
in passes that read one token after the same text. The knee is the number of tokens at which a pass costs {KNEE:g}
passes of one token. The memory limit is the size of the weights over the speed of a plain read of a large array,
measured here: no pass that has to fetch its weights from memory is faster; weights that fit into a processor's cache
may be."""


def cost_markdown(curves: Sequence[CostCurve]) -> str:
    """A table per curve, and what it says in words."""
    return "\n".join([*(_table(curve) for curve in curves), DEFINITIONS])


def _table(curve: CostCurve) -> str:
    columns = [curve.at(context) for context in curve.contexts]
    titles = "".join(f" after {context} tokens, ms | x |" for context in curve.contexts)
    lines = [
        f"## {curve.model}",
        "",
        f"- {curve.machine}, {curve.device}, {curve.dtype}",
        *(f"- {told}" for told in cost_sentences(curve)),
        "",
        f"| tokens |{titles}",
        f"|---|{'---|---|' * len(columns)}",
    ]
    for tokens in columns[0]:
        cells = [f"| {tokens} |"]
        for column in columns:
            point = column.get(tokens)
            relative = f"{point.seconds / column[min(column)].seconds:.2f}" if point else ""
            cells.append(f" {1000 * point.seconds:.2f} | {relative} |" if point else " | |")
        lines.append("".join(cells))
    return "\n".join([*lines, ""])


def cost_sentences(curve: CostCurve) -> list[str]:
    """What a curve says: the knee, and how far a pass of one token is from the memory limit."""
    knee, one = curve.knee(), curve.seconds(1)
    told = (
        f"Knee: a pass over {knee:.0f} tokens costs {KNEE:g} times a pass over one."
        if knee is not None
        else f"No knee: a pass over {max(curve.at(curve.contexts[0]))} tokens costs less than {KNEE:g} of one."
    )
    limit = (
        f"Memory limit: {curve.weight_bytes / 1e6:.0f} MB of weights at {curve.bandwidth / 1e9:.1f} GB/s take "
        f"{1000 * curve.limit:.2f} ms; a pass over one token takes {1000 * one:.2f} ms, "
    )
    limit += (
        f"{one / curve.limit:.1f} times as long."
        if one >= curve.limit
        else "less than that: the weights come from the processor's cache."
    )
    above = median(point.seconds / point.least for point in curve.points) - 1
    busy = f"The machine was busy: passes typically took {above:.0%} longer than the fastest of them. Measure again."
    return [told, limit, *([busy] if above > BUSY else [])]


def cost_figure(curves: Sequence[CostCurve]) -> go.Figure:
    """Seconds of a pass against the tokens that it reads: a line per model and context, the knee marked, and the
    memory limit of each model dotted."""
    figure = go.Figure()
    for at, curve in enumerate(curves):
        colour = COLOURS[at % len(COLOURS)]
        for number, context in enumerate(curve.contexts):
            points = curve.at(context)
            figure.add_scatter(
                x=list(points),
                y=[1000 * point.seconds for point in points.values()],
                mode="lines+markers",
                name=f"{curve.model}, after {context} tokens",
                line={"color": colour, "dash": "solid" if number == 0 else "dash"},
            )
        if (knee := curve.knee()) is not None:
            figure.add_scatter(
                x=[knee],
                y=[1000 * KNEE * curve.seconds(1)],
                mode="markers+text",
                marker={"symbol": "diamond", "size": 12, "color": colour},
                text=[f"knee: {knee:.0f} tokens"],
                textposition="top left",
                showlegend=False,
            )
        figure.add_hline(
            y=1000 * curve.limit,
            line={"dash": "dot", "color": colour},
            annotation_text=f"memory limit of {curve.model}",
            annotation_position="bottom right",
        )
    sizes = sorted({point.tokens for curve in curves for point in curve.points})
    figure.update_layout(
        template="none",
        title="What a pass costs",
        xaxis={
            "title": "tokens in a pass",
            "type": "log",
            "tickvals": sizes,
            "ticktext": [str(size) for size in sizes],
        },
        yaxis={"title": "milliseconds", "rangemode": "tozero"},
        legend={"orientation": "h", "y": -0.2},
    )
    return figure
