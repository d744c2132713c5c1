"""Settings worth measuring: what to try first of a method, and what its acceptance and the cost of passes suggest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from playground.analysis.cost_curve import CostCurve
from playground.analysis.lane_text import split_lane
from playground.analysis.prediction import SpeedModel
from playground.analysis.what_if import Scenario, measured_scenario
from playground.decoding.trace import Value
from playground.methods import METHODS

CHAIN_K = (1, 2, 3, 4, 5, 6, 8, 10, 12)
NODES = (2, 4, 8, 12, 16, 24, 32, 48, 64)
WINDOWS = ((3, 3, 3), (5, 3, 5), (5, 5, 5), (7, 5, 7), (10, 5, 10), (15, 5, 15), (7, 5, 5), (15, 5, 5))
BLOCKS = (2, 4, 8, 16)
NGRAMS = (2, 3, 4)


@dataclass(frozen=True)
class Candidate:
    """A lane and the speed-up that is expected of it."""

    lane: str
    expected: float


def lane_text(method: str, settings: Mapping[str, Value]) -> str:
    """The lane "method name=value ..."; settings at their defaults are left out."""
    defaults = {setting.name: setting.default for setting in METHODS[method].settings}
    pairs = [f"{name}={value}" for name, value in settings.items() if value != defaults[name]]
    return " ".join([method, *pairs])


def first_tries(method: str, layers: int) -> list[str]:
    """Lanes whose acceptance has to be measured, since no formula tells it: the method's defaults first. `layers` are
    the target's."""
    default = METHODS[method].check({})
    tries: list[dict[str, Value]] = []
    if method == "early-exit":
        depths = sorted({max(1, layers // 6), max(1, layers // 3), max(1, layers // 2)})
        tries = [{"exit_layer": depth} for depth in depths if depth < layers]
        if int(default["exit_layer"]) >= layers:
            default = default | tries[0]
    elif method == "jacobi":
        tries = [{"block": block} for block in BLOCKS]
    elif method == "prompt-lookup":
        tries = [{"max_ngram": longest} for longest in NGRAMS]
    elif method == "lookahead":
        tries = [{"window": 5, "ngram": 3, "guesses": 5}]
    return list(dict.fromkeys(lane_text(method, default | one) for one in ({}, *tries)))


def variants(lane: str, start: Scenario, own_nodes: int) -> list[tuple[str, Scenario]]:
    """Lanes that differ from a measured one in what a formula can follow: k, the nodes of the tree, or W, N and G.

    `own_nodes` are how many nodes the heads' own tree has: there is no larger tree to choose.
    """
    method, given = split_lane(lane)
    settings = METHODS[method].check(given)
    if start.kind == "chain":
        return [(lane_text(method, settings | {"k": k}), replace(start, k=k)) for k in CHAIN_K]
    if start.kind == "tree":
        return [
            (lane_text(method, settings | {"tree": str(size)}), replace(start, nodes=size))
            for size in NODES
            if size <= own_nodes and size != start.nodes
        ]
    return [
        (
            lane_text(method, settings | {"window": w, "ngram": n, "guesses": g}),
            replace(start, window=w, ngram=n, guesses=g),
        )
        for w, n, g in WINDOWS
    ]


def candidates(
    model: SpeedModel,
    lanes: Sequence[str],
    measured: Mapping[str, float],
    baseline: str,
    cost: CostCurve,
    own_nodes: int = 0,
) -> list[Candidate]:
    """What to expect of one method's `lanes`, whose speed-ups were `measured`, and of their variants; best first.

    `own_nodes` are those of the heads' own tree, where the method has heads.
    """
    expected: dict[str, float] = {}
    for lane in lanes:
        start = measured_scenario(model, lane, baseline)
        if start is None:
            continue
        # The formula's own error at what was measured is taken to be that of its variants.
        error = measured[lane] / start.speedup(cost.relative)
        for variant, scenario in variants(lane, start, own_nodes):
            value = error * scenario.speedup(cost.relative)
            expected[variant] = max(value, expected.get(variant, 0.0))
    expected |= {lane: measured[lane] for lane in lanes}
    return sorted((Candidate(*one) for one in expected.items()), key=lambda one: -one.expected)
