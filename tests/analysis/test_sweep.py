"""Sweeps are found in the lanes of a report, and told with their direction."""

from __future__ import annotations

import pytest

from playground.analysis.report import Row, Speedup
from playground.analysis.sweep import direction, find_sweeps, sweep_figure, sweep_section


def row(lane: str, speedup: float, tokens: float, category: str = "overall") -> Row:
    over = {} if lane == "autoregressive" else {"autoregressive": Speedup(speedup, speedup, speedup)}
    return Row(lane, category, 2, 10.0, over, tokens, None, None, [], {})


PLAIN = row("autoregressive", 1.0, 1.0)


def test_a_sweep_is_the_lanes_of_a_method_that_differ() -> None:
    rows = [PLAIN, *(row(f"draft-model k={k}", 1 + k / 10, 1 + k / 4) for k in (8, 2, 3))]
    rows += [row("draft-model k=2", 9.0, 9.0, "code"), row("medusa", 1.1, 1.4), row("transformers generate", 1.0, 1.0)]
    (sweep,) = find_sweeps(rows, "autoregressive")
    assert (sweep.method, sweep.varied, sweep.best.lane) == ("draft-model", ("k",), "draft-model k=8")
    assert sweep.values("k") == [2, 3, 8]
    assert [point.published for point in sweep.points] == [True, True, False]
    assert find_sweeps([PLAIN, row("medusa", 1.1, 1.4)], "autoregressive") == []


def test_the_measured_direction_of_a_published_setting_is_told() -> None:
    thresholds = [(0.05, 1.61, 0.9), (0.09, 1.55, 0.95), (0.15, 1.52, 1.0), (0.5, 1.1, 0.7)]
    rows = [PLAIN] + [
        row(f"medusa acceptance=typical posterior_threshold={at}", speedup, tokens)
        for at, tokens, speedup in thresholds
    ]
    (sweep,) = find_sweeps(rows, "autoregressive")
    told = direction(sweep, "posterior_threshold")
    assert told is not None
    assert "a lower posterior_threshold (0.05 instead of 0.15) accepted more: 1.52 → 1.61 tokens a pass" in told
    assert "but was slower: 1.00 → 0.90" in told
    assert direction(sweep, "acceptance") is None


def test_two_settings_make_a_heat_map_with_the_best_of_the_rest() -> None:
    lanes = {(15, 5, 5): 0.8, (15, 5, 15): 0.7, (7, 5, 7): 0.9, (7, 3, 7): 1.2}
    rows = [PLAIN] + [
        row(f"lookahead window={w} ngram={n} guesses={g}", speedup, 1.5) for (w, n, g), speedup in lanes.items()
    ]
    (sweep,) = find_sweeps(rows, "autoregressive")
    assert sweep.varied == ("guesses", "window", "ngram")
    found = sweep.at({"window": 15})
    assert found is not None
    assert found.speedup == 0.8
    heat, published, best = sweep_figure(sweep).data
    assert list(heat.x) == ["5", "7", "15"]
    assert list(heat.y) == ["7", "15"]
    assert [list(line) for line in heat.z] == [[None, 1.2, None], [0.8, None, 0.7]]
    assert len(published.x) == 3
    assert (list(best.x), list(best.y)) == (["7"], ["7"])


def test_trees_are_told_apart_by_their_nodes() -> None:
    trees = ("auto", "8", "[[0],[1]]", "mc_sim_7b_63")
    rows = [PLAIN, *(row(f"medusa tree={tree}", 1 + at / 10, 1.5 + at / 10) for at, tree in enumerate(trees))]
    (sweep,) = find_sweeps(rows, "autoregressive")
    assert sweep.values("tree") == [2, 8, 63, "auto"]
    told = direction(sweep, "tree")
    assert told is not None
    assert "a lower tree (2 instead of 63)" in told


def test_a_temperature_of_a_lane_s_own_is_a_setting() -> None:
    rows = [PLAIN, row("draft-model temperature=0.0", 1.2, 2.0), row("draft-model temperature=1.0", 1.1, 1.8)]
    (sweep,) = find_sweeps(rows, "autoregressive")
    assert sweep.varied == ("temperature",)


def test_the_section_says_when_nothing_was_gained() -> None:
    rows = [PLAIN, row("draft-model k=2", 0.8, 1.2), row("draft-model k=4", 0.7, 1.3)]
    section = sweep_section(find_sweeps(rows, "autoregressive"))
    assert "No setting of draft-model was faster than the baseline; the best is 0.80." in section.told
    assert section.table[1][:4] == ["draft-model", "2", "k=2", "0.80"]
    assert "| draft-model | 2 | k=2 | 0.80 |" in section.markdown()
    assert "k=2" in section.html()
    assert section.data == [
        {
            "method": "draft-model",
            "varied": ["k"],
            "best": "draft-model k=2",
            "points": [vars(point) for point in find_sweeps(rows, "autoregressive")[0].points],
        }
    ]
    line, _, best = section.figures[0].data
    assert list(line.y) == pytest.approx([0.8, 0.7])
    assert list(best.y) == [0.8]
