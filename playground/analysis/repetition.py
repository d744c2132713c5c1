"""Answers that run in circles: easy to guess for every method, and worth nothing to a reader."""

from __future__ import annotations

from collections.abc import Sequence

from playground.analysis.benchmark import Sample

GRAM = 4


def repeated(ids: Sequence[int], gram: int = GRAM) -> float:
    """Share of the n-grams of `ids` that were there before; 0 for a text shorter than one."""
    grams = [tuple(ids[at : at + gram]) for at in range(len(ids) - gram + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def loops(samples: Sequence[Sample], lane: str, most: float) -> set[str]:
    """The questions of which an answer of `lane` repeats more than `most` of its 4-grams."""
    return {
        one.question
        for one in samples
        if one.lane == lane and any(repeated(answer.output_ids) > most for answer in one.answers)
    }
