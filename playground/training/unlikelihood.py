"""A last phase for small models, which write in circles: their own repetitions are made unlikely."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import LlamaForCausalLM

from playground.analysis.repetition import GRAM, repeated
from playground.training.forward import next_token_logits
from playground.training.self_distillation import MOST_REPEATED

PREFIX = 32  # tokens of the text that are continued
CONTINUATION = 64  # tokens
ROWS = 32  # continuations a step


def repeating(ids: Tensor, gram: int = GRAM) -> Tensor:
    """Which tokens of `ids` [B, T] belong to an n-gram that the row has had before: booleans [B, T]."""
    grams = ids.unfold(1, gram, 1)
    same = (grams[:, :, None] == grams[:, None]).all(-1)
    again = same.tril(-1).any(-1)
    found = torch.zeros_like(ids, dtype=torch.bool)
    for offset in range(gram):
        found[:, offset : offset + again.shape[1]] |= again
    return found


def unlikelihood(model: LlamaForCausalLM, likelihood: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`likelihood` of a text plus sequence-level unlikelihood: -log(1 - p) of every token that the model repeats when
    it goes on greedily with the beginnings of that text (Welleck et al. 2020, arXiv:1908.04319, section 5.2)."""

    def loss(ids: Tensor) -> Tensor:
        beginnings = ids[:, : ids.shape[1] // PREFIX * PREFIX].reshape(-1, PREFIX)[:ROWS]
        with torch.autocast(ids.device.type, dtype=torch.bfloat16):
            written = go_on(model, beginnings, CONTINUATION)
            chances = next_token_logits(model, written[:, :-1])[:, PREFIX - 1 :].softmax(-1)
        chosen = chances.gather(-1, written[:, PREFIX:, None])[..., 0]
        unlikely = -torch.log1p(-chosen.clamp(max=1 - 1e-4))
        return likelihood(ids) + (unlikely * repeating(written)[:, PREFIX:]).mean()

    return loss


@torch.no_grad()
def go_on(model: LlamaForCausalLM, beginnings: Tensor, tokens: int) -> Tensor:
    """`beginnings` [B, P] and how the model goes on greedily, by exactly `tokens` tokens: [B, P + tokens]."""
    return model.generate(  # type: ignore[no-any-return]
        beginnings,
        attention_mask=torch.ones_like(beginnings),
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        pad_token_id=0,
    )


def looping(model: LlamaForCausalLM, text: NDArray[np.integer], texts: int = 100) -> float:
    """Share of greedy continuations of places spread over `text` of which more than a fifth of the 4-grams repeat."""
    starts = np.linspace(0, len(text) - PREFIX, texts).astype(int)
    beginnings = torch.from_numpy(np.stack([text[start : start + PREFIX] for start in starts]).astype(np.int64))
    written = go_on(model, beginnings.to(model.device), CONTINUATION)[:, PREFIX:]
    return sum(repeated(row) > MOST_REPEATED for row in written.tolist()) / len(written)
