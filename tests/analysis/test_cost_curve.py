"""What a pass costs is measured on the model itself, kept, and read off between and beyond what was measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from playground.analysis.cost_curve import (
    CONTEXTS,
    CostCurve,
    Point,
    cost_curve,
    curve_file,
    interpolated,
    measure_curve,
    pass_seconds,
    read_bandwidth,
)
from playground.analysis.cost_report import cost_figure, cost_markdown, cost_sentences
from playground.models.catalog import load_catalog
from playground.models.loading import LoadedModel, load_model
from playground.models.medusa_heads import MedusaHeads
from playground.models.placement import Placement
from tests.tiny import tiny_target


def made(points: dict[tuple[int, int], float], weights: int = 8, bandwidth: float = 2.0) -> CostCurve:
    measured = [Point(context, tokens, seconds, seconds, 3) for (context, tokens), seconds in points.items()]
    return CostCurve("m", "here", "float32", "cpu", weights, bandwidth, measured)


@pytest.fixture
def draft() -> LoadedModel:
    source = load_catalog().parts("built-in").draft
    assert source is not None
    return load_model(source.name, source.fetch(), Placement(torch.device("cpu"), torch.float32))


def test_every_size_is_read_after_a_text_with_the_heads_once_a_pass() -> None:
    target, asked, read = tiny_target("llama-tied"), list[int](), list[tuple[int, int]]()

    class Counting(MedusaHeads):
        def forward(self, hidden: torch.Tensor, lm_head: object) -> torch.Tensor:
            asked.append(len(hidden))
            return super().forward(hidden, lm_head)

    forward = target.forward

    def watched(ids, positions, mask, cache, layers):
        read.append((ids.shape[1], mask.shape[2]))
        return forward(ids, positions, mask, cache, layers)

    target.forward = watched
    found = pass_seconds(target, Counting(32, 2), sizes=(1, 4, 16), rounds=2)
    assert list(found) == [1, 4, 16]
    assert all(seconds > 0 for seconds in found.values())
    assert all(less <= more for less, more in pairwise(found.values()))
    context = CONTEXTS[0]
    assert read == [(context, context), *[(n, context + n) for n in (1, 4, 16)] * 3]
    assert asked == [1] * 9


def test_a_curve_has_every_size_and_context_that_fits(draft: LoadedModel) -> None:
    full = draft.context_length
    curve = measure_curve(draft, budget=0, sizes=(1, 4), contexts=(8, full - 2, full + 1))
    assert {(point.context, point.tokens) for point in curve.points} == {(8, 1), (8, 4), (full - 2, 1)}
    assert all(0 < point.least <= point.seconds and point.repeats == 2 for point in curve.points)
    assert curve.weight_bytes == 4 * draft.parameters
    assert (curve.dtype, curve.device, curve.model) == ("float32", "cpu", draft.name)
    assert curve.bandwidth > 0


def test_a_curve_is_measured_once_a_machine(
    draft: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path))
    monkeypatch.setattr("playground.analysis.cost_curve.read_bandwidth", lambda device: 1.0)
    first = cost_curve(draft, budget=0)
    assert cost_curve(draft, budget=0) == first, "a second measurement would not be the same to the last bit"
    assert cost_curve(draft, budget=0, again=True) != first
    file = curve_file(draft)
    file.write_text('{"format": 0}')
    assert cost_curve(draft, budget=0) != first, "what this version cannot read is measured anew"
    assert [one.name for one in file.parent.iterdir()] == [file.name]
    monkeypatch.setattr(draft.target, "stack", None)
    assert curve_file(draft) != file, "passes made in another way cost something else"
    monkeypatch.undo()
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path))
    assert curve_file(draft) == file
    threads = torch.get_num_threads()
    monkeypatch.setattr("torch.get_num_threads", lambda: threads + 1)
    assert curve_file(draft) != file, "other threads, other costs"


def test_a_curve_goes_straight_through_what_was_measured_and_on() -> None:
    seconds = interpolated({8: 4.0, 1: 1.0, 4: 2.0})
    assert [seconds(n) for n in (0, 1, 4, 6, 8, 10)] == [1.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert interpolated({1: 2.0, 2: 1.0})(9) == 1.0, "it never goes on downwards"
    assert interpolated({3: 2.0})(9) == 2.0
    curve = made({(10, 1): 1.0, (10, 4): 4.0, (20, 1): 2.0, (20, 4): 8.0})
    assert curve.seconds(2) == 2.0
    assert curve.seconds(2, context=15) == 3.0
    assert curve.relative(4) == 4.0


def test_the_knee_is_where_the_curve_first_crosses() -> None:
    assert made({(10, 1): 1.0, (10, 4): 1.25, (10, 8): 2.25, (10, 16): 1.0}).knee() == 5.0
    assert made({(10, 1): 1.0, (10, 4): 1.25}).knee() is None


def test_the_limit_is_the_weights_over_the_bandwidth_and_a_cache_may_beat_it() -> None:
    slow, cached = made({(10, 1): 6.0, (10, 4): 12.0}), made({(10, 1): 1.0, (10, 4): 1.1})
    assert slow.limit == 4.0
    assert "1.5 times as long" in cost_sentences(slow)[1]
    assert "processor's cache" in cost_sentences(cached)[1]
    assert "No knee" in cost_sentences(cached)[0]
    assert read_bandwidth(torch.device("cpu"), 1 << 20) > 0


def test_a_machine_that_was_busy_is_told() -> None:
    calm = made({(10, 1): 1.0, (10, 4): 2.0})
    wild = replace(calm, points=[replace(point, least=point.seconds / 1.5) for point in calm.points])
    assert not [told for told in cost_sentences(calm) if "busy" in told]
    assert "50% longer" in cost_sentences(wild)[2]


def test_table_and_figure_show_every_point() -> None:
    curve = made({(10, 1): 0.001, (10, 4): 0.002, (20, 1): 0.004})
    text = cost_markdown([curve])
    assert "| 4 | 2.00 | 2.00 | | |" in text
    assert "| 1 | 1.00 | 1.00 | 4.00 | 1.00 |" in text
    figure = cost_figure([curve])
    assert [list(trace.y) for trace in figure.data] == [[1.0, 2.0], [4.0], [1.5]]
    assert len(figure.layout.shapes) == 1
