"""A target whose distributions are a table: small enough to know its law exactly."""

from __future__ import annotations

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor

from playground.decoding.cache import KVCache
from playground.decoding.target import FINAL


class TableTarget:
    """p(next | last `order` tokens) from a table of logits [V, ..., V] with `order` + 1 axes.

    The tokens a row depends on are found through the cache and the visibility mask alone, so a wrong mask, position
    or cache row changes its output just as it would change a transformer's. Missing context reads as token 0.
    """

    def __init__(self, table: Tensor, context_length: int = 1 << 20, eos_ids: Collection[int] = ()) -> None:
        self.table = table
        self.order = table.dim() - 1
        self.vocab_size = table.shape[0]
        self.context_length = context_length
        self.eos_ids = frozenset(eos_ids)
        self.name = f"table of {self.vocab_size} tokens"
        self.device = table.device

    @staticmethod
    def random(vocab: int, order: int, seed: int, sharpness: float = 1.0, context_length: int = 1 << 20) -> TableTarget:
        """A table of independent normal logits times `sharpness`."""
        generator = torch.Generator().manual_seed(seed)
        return TableTarget(torch.randn(*[vocab] * (order + 1), generator=generator) * sharpness, context_length)

    def new_cache(self, rows: int) -> KVCache:
        return KVCache(1, rows)

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor, cache: KVCache, layers: Collection[int] = (FINAL,)
    ) -> dict[int, Tensor]:
        """The hidden state of a row is its last `order` visible tokens by position, newest last."""
        states = torch.stack([ids, positions], -1).unsqueeze(1).double()
        keys, _ = cache.states[0].update(states, states)
        tokens, at = keys[:, 0].unsqueeze(1).unbind(-1)
        seen = torch.where(mask, at, -1.0)
        newest = seen.topk(min(self.order, seen.shape[-1]))
        found = tokens.expand_as(seen).gather(-1, newest.indices).masked_fill(newest.values < 0, 0)
        return {FINAL: F.pad(found.flip(-1), (self.order - found.shape[-1], 0))}

    def logits(self, hidden: Tensor) -> Tensor:
        return self.table[tuple(hidden.long().unbind(-1))]

    def early_exit(self, layers: int) -> TableTarget:
        """A blurred table: what a shallow model might know. Its cache rows are those of the table itself."""
        cut = TableTarget(self.table.float() * 0.5, self.context_length, self.eos_ids)
        cut.name = f"{self.name}, blurred"
        return cut
