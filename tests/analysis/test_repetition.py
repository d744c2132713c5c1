from __future__ import annotations

import pytest

from playground.analysis.benchmark import Answer, Sample
from playground.analysis.repetition import loops, repeated


@pytest.mark.parametrize(
    ("ids", "share"),
    [([], 0.0), ([1, 1, 1], 0.0), ([1, 2, 3, 4, 5], 0.0), ([1] * 8, 0.8), ([1, 2, 3, 4] * 2, 0.2)],
)
def test_the_share_of_grams_that_were_there_before(ids: list[int], share: float) -> None:
    assert repeated(ids) == pytest.approx(share)


def test_questions_are_left_out_by_the_baseline_s_answers() -> None:
    def sample(lane: str, question: str, *outputs: list[int]) -> Sample:
        return Sample(lane, 0, question, "all", [Answer([1], output, "", 1.0, 1) for output in outputs])

    circle, line = [1] * 20, list(range(20))
    samples = [sample("plain", "a", line), sample("plain", "b", line, circle), sample("other", "a", circle)]
    assert loops(samples, "plain", 0.2) == {"b"}
    assert loops(samples, "plain", 0.99) == set()
