"""What settings do: the lanes of a method that differ in their settings, the published ones among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import plotly.graph_objects as go

from playground.analysis.lane_text import split_lane
from playground.analysis.report import OVERALL, Row
from playground.analysis.section import Section
from playground.decoding.codec import JSON
from playground.decoding.trace import Value
from playground.errors import UserError
from playground.models.medusa_trees import load_tree
from playground.run import get_kind

Setting: TypeAlias = str
LITERATURE: dict[str, tuple[str, tuple[dict[Setting, Value], ...]]] = {
    "draft-model": (
        "K 2, 4 and 8: Leviathan et al. 2023 and Chen et al. 2023",
        tuple({"k": k} for k in (2, 4, 8)),
    ),
    "medusa": (
        "typical acceptance with thresholds of 0.05, 0.09 and 0.15: Cai et al. 2024 and its code, which takes 0.09",
        tuple({"acceptance": "typical", "posterior_threshold": threshold} for threshold in (0.05, 0.09, 0.15)),
    ),
    "lookahead": (
        "W, N of 15, 5 (7B), 10, 5 (13B) and 7, 5 (34B) with G = W: Fu et al. 2024; and with G 5",
        tuple({"window": w, "ngram": 5, "guesses": g} for w in (15, 10, 7) for g in (w, 5)),
    ),
}
"""Published settings by method, with their source."""


@dataclass(frozen=True)
class Tried:
    """A point of a sweep: all settings of a lane, what it was called, and what came of it."""

    lane: str
    settings: dict[Setting, Value]
    speedup: float
    tokens_per_pass: float
    published: bool


@dataclass(frozen=True)
class Sweep:
    """The lanes of a method. `varied` are the settings that differ among them, most values first."""

    method: str
    varied: tuple[Setting, ...]
    points: list[Tried]

    @property
    def best(self) -> Tried:
        return max(self.points, key=lambda point: point.speedup)

    def values(self, setting: Setting) -> list[Value]:
        """What was tried of a setting, in order."""
        found = {point.settings[setting] for point in self.points}
        return sorted(found, key=lambda value: (isinstance(value, str), value))

    def at(self, chosen: Mapping[Setting, Value]) -> Tried | None:
        """The fastest of the points with these settings; None where none was tried."""
        fitting = [one for one in self.points if all(one.settings[name] == value for name, value in chosen.items())]
        return max(fitting, key=lambda point: point.speedup, default=None)


def find_sweeps(rows: Sequence[Row], baseline: str) -> list[Sweep]:
    """The sweeps in a report: every method with lanes that differ in a setting. Speed-ups are over `baseline`."""
    lanes: dict[str, list[Tried]] = {}
    for row in rows:
        method, given = split_lane(row.lane)
        if row.category != OVERALL or method == baseline or baseline not in row.speedups:
            continue
        if (settings := _settings(method, given)) is not None:
            known = LITERATURE.get(method, ("", ()))[1]
            published = any(all(settings[name] == value for name, value in one.items()) for one in known)
            point = Tried(row.lane, settings, row.speedups[baseline].median, row.tokens_per_pass, published)
            lanes.setdefault(method, []).append(point)
    sweeps = []
    for method, points in lanes.items():
        counts = {name: len({point.settings[name] for point in points}) for name in points[0].settings}
        varied = sorted((name for name in counts if counts[name] > 1), key=lambda name: -counts[name])
        if varied:
            sweeps.append(Sweep(method, tuple(varied), points))
    return sweeps


def _settings(method: str, given: Mapping[str, str]) -> dict[Setting, Value] | None:
    """All settings of a lane, temperature included where it has one of its own, a tree as its number of nodes; None
    for what is no method of ours."""
    try:
        kind = get_kind(method)
        settings = kind.check({name: value for name, value in given.items() if name != "temperature"})
    except UserError:
        return None
    if (tree := str(settings.get("tree", "auto"))) != "auto":  # by its number of nodes, which has an order
        settings["tree"] = int(tree) if tree.isdecimal() else len(load_tree(tree))
    return settings | {"temperature": float(given.get("temperature", 0.0))}


def direction(sweep: Sweep, setting: Setting) -> str | None:
    """What a setting did, in words, everything else as at the best point: from its least value to its greatest, those
    of the literature where two of them were measured. None where it has no order or was tried once there."""
    best = sweep.best
    line = [
        point
        for point in sweep.points
        if all(point.settings[other] == best.settings[other] for other in sweep.varied if other != setting)
        and not isinstance(point.settings[setting], str | bool)
    ]
    known = [point for point in line if point.published]
    chosen = sorted(known if len(known) > 1 else line, key=lambda point: float(point.settings[setting]))
    if len(chosen) < 2:
        return None
    low, high = chosen[0], chosen[-1]
    accepted = _compared(low.tokens_per_pass, high.tokens_per_pass)
    fast = _compared(low.speedup, high.speedup)
    joint = "and" if accepted == fast else "but"
    return (
        f"{sweep.method}, a lower {setting} ({low.settings[setting]} instead of {high.settings[setting]}) accepted "
        f"{('less', 'as much', 'more')[accepted]}: {high.tokens_per_pass:.2f} → {low.tokens_per_pass:.2f} tokens a "
        f"pass, {joint} was {('slower', 'as fast', 'faster')[fast]}: {high.speedup:.2f} → {low.speedup:.2f} times the "
        "baseline."
    )


def _compared(low: float, high: float) -> int:
    """0, 1 or 2: `low` is less, the same to two digits, or more than `high`."""
    return 1 if round(low, 2) == round(high, 2) else 2 if low > high else 0


def sweep_section(sweeps: Sequence[Sweep]) -> Section:
    """All sweeps of a report: the best point of each, what each setting did, and a figure of each."""
    table = [["method", "settings tried", "best", "speed-up", "tokens/pass", "published settings tried"]]
    told: list[str] = []
    for sweep in sweeps:
        best = sweep.best
        published = [_short(sweep, point) for point in sweep.points if point.published]
        table.append(
            [
                sweep.method,
                str(len(sweep.points)),
                _short(sweep, best),
                f"{best.speedup:.2f}",
                f"{best.tokens_per_pass:.2f}",
                "; ".join(published) or "none",
            ]
        )
        if best.speedup < 1:
            told.append(f"No setting of {sweep.method} was faster than the baseline; the best is {best.speedup:.2f}.")
        told += [words for name in sweep.varied if (words := direction(sweep, name)) is not None]
        if sweep.method in LITERATURE and published:
            told.append(f"Published settings of {sweep.method}: {LITERATURE[sweep.method][0]}.")
    data = [
        {
            "method": sweep.method,
            "varied": list(sweep.varied),
            "best": sweep.best.lane,
            "points": [vars(point) for point in sweep.points],
        }
        for sweep in sweeps
    ]
    return Section("sweeps", "Settings", table, told, [sweep_figure(one) for one in sweeps], cast(JSON, data))


def _short(sweep: Sweep, point: Tried) -> str:
    return " ".join(f"{name}={point.settings[name]}" for name in sweep.varied)


def sweep_figure(sweep: Sweep) -> go.Figure:
    """Speed-ups by the setting that has most values, or by the two: then a heat map, with the best of whatever else
    was varied in each cell. A star marks the best point, circles the published ones."""
    best, across = sweep.best, sweep.varied[0]
    figure = go.Figure()
    if len(sweep.varied) == 1:
        points = [point for value in sweep.values(across) if (point := sweep.at({across: value})) is not None]
        figure.add_scatter(
            x=[str(point.settings[across]) for point in points],
            y=[point.speedup for point in points],
            mode="lines+markers",
            name="measured",
        )
        figure.add_hline(y=1, line_dash="dot")
        heights: dict[str, float | str] = {point.lane: point.speedup for point in points}
    else:
        up = sweep.varied[1]
        columns, lines = sweep.values(across), sweep.values(up)
        cells = [[sweep.at({across: column, up: line}) for column in columns] for line in lines]
        figure.add_heatmap(
            x=[str(column) for column in columns],
            y=[str(line) for line in lines],
            z=[[cell and cell.speedup for cell in line] for line in cells],
            text=[[f"{cell.speedup:.2f}" if cell else "" for cell in line] for line in cells],
            hovertext=[[cell.lane if cell else "not tried" for cell in line] for line in cells],
            texttemplate="%{text}",
            colorscale="RdBu",
            zmid=1,
            colorbar={"title": "speed-up"},
        )
        heights = {point.lane: str(point.settings[up]) for point in sweep.points}
    for name, symbol, marked in (
        ("published", "circle-open", [point for point in sweep.points if point.published]),
        ("best", "star", [best]),
    ):
        marked = [point for point in marked if point.lane in heights]
        figure.add_scatter(
            x=[str(point.settings[across]) for point in marked],
            y=[heights[point.lane] for point in marked],
            mode="markers",
            marker={"symbol": symbol, "size": 26 if symbol != "star" else 14, "color": "#111", "line": {"width": 2}},
            name=name,
            hovertext=[point.lane for point in marked],
        )
    rest = f", the best of {', '.join(sweep.varied[2:])} in each cell" if len(sweep.varied) > 2 else ""
    figure.update_layout(
        template="none",
        title=f"{sweep.method}: speed-up over autoregressive{rest}",
        xaxis={"title": across, "type": "category"},
        yaxis={"title": sweep.varied[1], "type": "category"} if len(sweep.varied) > 1 else {"title": "speed-up"},
    )
    return figure
