"""What a trained model is worth, measured on held-out text."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from playground.training.corpus import HeldOut
from playground.training.forward import next_token_logits


@dataclass(frozen=True)
class Agreement:
    """How well a draft foresees a target, averaged over positions of a text.

    `overlap` is sum(min(p, q)): the chance that speculative sampling accepts the draft's token (arXiv:2211.17192,
    section 3.3). `same_top` is the share of positions where both have the same most likely token.
    """

    overlap: float
    same_top: float


@torch.no_grad()
def bits_per_byte(model: LlamaForCausalLM, text: HeldOut, row_tokens: int) -> float:
    """Bits the model needs per UTF-8 byte of `text`, read in rows of `row_tokens` tokens that know nothing of
    each other."""
    nats = 0.0
    for ids in _rows(text, row_tokens):
        logits = next_token_logits(model, ids[:, :-1])
        nats += F.cross_entropy(logits[0], ids[0, 1:], reduction="sum").item()
    return nats / math.log(2) / text.num_bytes


@torch.no_grad()
def agreement(
    draft: LlamaForCausalLM, target: LlamaForCausalLM, text: HeldOut, row_tokens: int, exit_layer: int | None = None
) -> Agreement:
    """Agreement of `draft`, or of its early exit behind `exit_layer`, with `target` at temperature 1."""
    overlap = same = count = 0.0
    for ids in _rows(text, row_tokens):
        p = next_token_logits(target, ids).softmax(-1)
        q = next_token_logits(draft, ids, exit_layer).softmax(-1)
        overlap += torch.minimum(p, q).sum().item()
        same += (p.argmax(-1) == q.argmax(-1)).sum().item()
        count += ids.numel()
    return Agreement(overlap / count, same / count)


def _rows(text: HeldOut, row_tokens: int) -> Iterator[Tensor]:
    """Rows [1, row_tokens + 1], the last token of one being the first of the next."""
    ids = torch.from_numpy(text.ids.astype("int64"))
    for start in range(0, len(ids) - 1, row_tokens):
        yield ids[None, start : start + row_tokens + 1]
