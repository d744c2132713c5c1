"""The cost curve is measured on the model itself and never falls."""

from __future__ import annotations

from itertools import pairwise

import torch

from playground.models.medusa_heads import MedusaHeads
from playground.training.cost_curve import CONTEXT, pass_seconds
from tests.tiny import tiny_target


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
    assert read == [(CONTEXT, CONTEXT), *[(n, CONTEXT + n) for n in (1, 4, 16)] * 3]
    assert asked == [1] * 9
