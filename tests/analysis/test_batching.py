from __future__ import annotations

import pytest

from playground.analysis.batching import Point, batch_curve, batch_figure
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec


def test_the_curve_has_a_measured_point_for_every_size() -> None:
    spec = RunSpec(
        "Once upon a time", (LaneSpec("prompt-lookup", {"k": 3}),), max_new_tokens=6, companions=("The king",)
    )
    points = batch_curve(spec, [1, 3], ModelStore(), rounds=1)
    assert [point.batch for point in points] == [1, 3]
    assert all(point.baseline > 0 and point.method > 0 for point in points)


def test_the_figure_shows_the_ratios_it_was_given() -> None:
    points = [Point(1, 10.0, 20.0), Point(4, 30.0, 33.0)]
    (trace,) = batch_figure(points, "Draft model").data
    assert list(trace.x) == [1, 4]
    assert list(trace.y) == [2.0, 1.1]


@pytest.mark.parametrize(("lanes", "sizes", "rounds"), [(2, [1], 1), (1, [], 1), (1, [1], 0)])
def test_nothing_to_measure_is_told(lanes: int, sizes: list[int], rounds: int) -> None:
    spec = RunSpec("a", (LaneSpec("prompt-lookup"),) * lanes)
    with pytest.raises(UserError):
        batch_curve(spec, sizes, ModelStore(), rounds)
