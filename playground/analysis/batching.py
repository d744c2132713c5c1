"""What becomes of a method's gain when sequences share the pass: speed-up against batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import plotly.graph_objects as go

from playground.decoding.trace import throughput
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, open_run


@dataclass(frozen=True)
class Point:
    """Tokens per second of all rows together at a batch size, autoregressive and with the method."""

    batch: int
    baseline: float
    method: float

    @property
    def speedup(self) -> float:
        return self.method / self.baseline


def batch_curve(spec: RunSpec, sizes: Sequence[int], store: ModelStore, rounds: int = 3) -> list[Point]:
    """Race the one lane of `spec` against naive batching at every size; medians over `rounds`.

    The two take turns by their own clocks, so what else the machine does meets both alike. Rows that end early stay in
    the batch as padding, and a drafter works for one row after the other: both are part of what is measured.
    """
    if len(spec.lanes) != 1:
        raise UserError(f"A batch curve is of one lane; {len(spec.lanes)} were given.")
    if not sizes or rounds < 1:
        raise UserError(f"Nothing to measure: {len(sizes)} batch sizes, {rounds} rounds. Give at least one of each.")
    (lane,) = spec.lanes
    plain = LaneSpec("naive-batching", target=lane.target)
    points = []
    for size in sizes:
        lanes = tuple(replace(one, settings={**one.settings, "batch": size}) for one in (plain, lane))
        rates = [_throughputs(replace(spec, lanes=lanes), store) for _ in range(rounds)]
        points.append(Point(size, median(rate[0] for rate in rates), median(rate[1] for rate in rates)))
    return points


def _throughputs(spec: RunSpec, store: ModelStore) -> tuple[float, float]:
    with open_run(spec, store) as run:
        for _ in run:
            pass
        plain, method = ([step for at, step in run.trace.order if at == lane] for lane in (0, 1))
        return throughput(plain), throughput(method)


def batch_figure(points: Sequence[Point], title: str) -> go.Figure:
    """Speed-up against batch size, with the line below which the method loses."""
    sizes = [point.batch for point in points]
    figure = go.Figure(go.Scatter(x=sizes, y=[point.speedup for point in points], mode="lines+markers", name=title))
    figure.add_hline(y=1, line_dash="dot")
    figure.update_layout(
        template="none",
        title=f"{title}: speed-up over naive batching",
        xaxis={"title": "sequences in a pass", "type": "log", "tickvals": sizes, "ticktext": [str(s) for s in sizes]},
        yaxis={"title": "tokens per second, method / autoregressive", "rangemode": "tozero"},
    )
    return figure
