"""Keys and values of the tokens a model has read, in memory that is allocated once and written in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

SPARE = 64


class KVCache(Cache):
    """The cache of `rows` sequences, each with its own length; transformers models write to it directly.

    A forward is announced with `begin`, which says at which slots every sequence's new tokens go. New slots lie past
    the sequence's length and do not count until `keep` takes them over; whatever is not kept is overwritten later.
    So a rejected token, a side token and a scratch row (a forward through the first layers only) cost no clean-up.
    Slot i of a sequence holds its token at position i.
    """

    def __init__(self, layers: int, rows: int = 1) -> None:
        self.lengths = [0] * rows
        self.slots = torch.zeros(rows, 0, dtype=torch.long)
        self.start: int | None = None
        self.end = 0
        self.states = [_Layer(self) for _ in range(layers)]
        super().__init__(layers=list(self.states))

    @property
    def rows(self) -> int:
        return len(self.lengths)

    def begin(self, slots: Tensor, end: int) -> None:
        """Announce a forward: `slots` [rows, q] are where its tokens go, `end` how many slots attention reads."""
        self.slots, self.end = slots, end
        # One sequence writes one run of slots: a slice is cheaper than an index.
        self.start = int(slots[0, 0]) if self.rows == 1 else None

    @torch.inference_mode()  # the states were made in it, and may be written in it only
    def keep(self, row: int, offsets: Sequence[int]) -> None:
        """Take over the new slots at these offsets past the length, in this order; the rest is dropped."""
        length = self.lengths[row]
        if list(offsets) != list(range(len(offsets))):
            for layer in self.states:
                layer.move(row, length, offsets)
        self.lengths[row] = length + len(offsets)

    def rewind(self, row: int, length: int) -> None:
        """Forget everything past `length` tokens of a sequence."""
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"cannot rewind {self.lengths[row]} cached tokens to {length}")
        self.lengths[row] = length

    def nbytes(self) -> int:
        """Bytes held by all layers."""
        held = [layer for layer in self.states if layer.is_initialized]
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in held)


class _Layer(CacheLayerMixin):
    """One layer: keys and values [rows, kv_heads, capacity, head_dim], doubled when full."""

    is_sliding = False
    keys: Tensor
    values: Tensor

    def __init__(self, cache: KVCache) -> None:
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows = self.cache.rows
        self.keys = key_states.new_zeros(rows, key_states.shape[1], 0, key_states.shape[3])
        self.values = value_states.new_zeros(rows, value_states.shape[1], 0, value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write states [rows, kv_heads, q, head_dim] to the announced slots; returns all that attention reads."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.cache.end
        if end > self.keys.shape[2]:
            self._grow(end)
        if (start := self.cache.start) is not None:
            self.keys[:, :, start : start + key_states.shape[2]] = key_states
            self.values[:, :, start : start + key_states.shape[2]] = value_states
        else:
            slots = self.cache.slots.to(self.keys.device)
            at = torch.arange(slots.shape[0], device=slots.device).unsqueeze(1)
            self.keys[at, :, slots] = key_states.transpose(1, 2)
            self.values[at, :, slots] = value_states.transpose(1, 2)
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _grow(self, needed: int) -> None:
        capacity = max(needed + SPARE, 2 * self.keys.shape[2])
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros(*old.shape[:2], capacity, old.shape[3])
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)

    def move(self, row: int, length: int, offsets: Sequence[int]) -> None:
        if not self.is_initialized or not offsets:
            return
        source = torch.tensor(offsets, device=self.keys.device) + length
        for states in (self.keys, self.values):
            states[row, :, length : length + len(offsets)] = states[row, :, source]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.end, 0

    def get_seq_length(self) -> int:
        return self.cache.end - self.cache.slots.shape[1]

    def get_max_length(self) -> int:
        return -1
