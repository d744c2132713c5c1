"""Keys and values of the tokens a model has read, in memory that is allocated ahead and written in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

SPARE = 64
AHEAD = 8192  # slots taken at once for a run that may never fill them


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
        self.capacity = 0
        self.start: int | None = None
        self._placed: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self.end = 0
        self.states = [_Layer(self) for _ in range(layers)]
        super().__init__(layers=list(self.states))

    @property
    def rows(self) -> int:
        return len(self.lengths)

    def begin(self, slots: Tensor, end: int) -> None:
        """Announce a forward: `slots` [rows, q] are where its tokens go, `end` how many slots attention reads."""
        self.slots, self.end = slots, end
        self._placed.clear()
        # One sequence writes one run of slots: a slice is cheaper than an index.
        self.start = int(slots[0, 0]) if self.rows == 1 else None

    def reserve(self, tokens: int) -> None:
        """Room for sequences of `tokens`, taken at the next forward: a run that knows its length grows only once.

        More than AHEAD is taken as it is needed: few runs end where the longest context does.
        """
        self.capacity = max(self.capacity, min(tokens, AHEAD))

    def placed(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The announced slots [rows, q] and their rows [rows, 1] on `device`, brought there once per forward."""
        if device not in self._placed:
            slots = self.slots.to(device)
            self._placed[device] = torch.arange(len(slots), device=device).unsqueeze(1), slots
        return self._placed[device]

    @torch.inference_mode()  # the states were made in it, and may be written in it only
    def keep(self, row: int, offsets: Sequence[int]) -> None:
        """Take over the new slots at these offsets past the length, in this order; the rest is dropped."""
        length = self.lengths[row]
        if list(offsets) != list(range(len(offsets))):
            source: dict[torch.device, Tensor] = {}
            for layer in self.states:
                if layer.is_initialized:
                    device = layer.keys.device
                    if device not in source:
                        source[device] = torch.tensor(offsets, dtype=torch.long, device=device) + length
                    layer.move(row, length, source[device])
        self.lengths[row] = length + len(offsets)

    def view(self, start: int, end: int) -> dict[int, tuple[Tensor, Tensor]]:
        """Keys and values [rows, kv_heads, end - start, head_dim] at these slots, by layer, where they lie."""
        return {
            number: (layer.keys[:, :, start:end], layer.values[:, :, start:end])
            for number, layer in enumerate(self.states)
            if layer.is_initialized
        }

    @torch.inference_mode()
    def write(self, start: int, end: int, states: Mapping[int, tuple[Tensor, Tensor]]) -> None:
        """Write what `view` gave of another cache to these new slots, as a forward would. For caches of one row."""
        self.begin(torch.arange(start, end).unsqueeze(0), end)
        for number, (keys, values) in states.items():
            self.states[number].update(keys, values)

    def rewind(self, row: int, length: int) -> None:
        """Forget everything past `length` tokens of a sequence."""
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"cannot rewind {self.lengths[row]} cached tokens to {length}")
        self.lengths[row] = length


class _Layer(CacheLayerMixin):
    """One layer: keys and values [rows, kv_heads, capacity, head_dim], grown when full."""

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
            at, slots = self.cache.placed(self.keys.device)
            self.keys[at, :, slots] = key_states.transpose(1, 2)
            self.values[at, :, slots] = value_states.transpose(1, 2)
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _grow(self, needed: int) -> None:
        capacity = max(needed + SPARE, self.cache.capacity, 2 * self.keys.shape[2])
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros(*old.shape[:2], capacity, old.shape[3])
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)

    def move(self, row: int, length: int, source: Tensor) -> None:
        """Copy the states at slots `source` [n] to the n slots from `length` on."""
        for states in (self.keys, self.values):
            states[row, :, length : length + len(source)] = states[row, :, source]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.end, 0

    def get_seq_length(self) -> int:
        return self.cache.end - self.cache.slots.shape[1]

    def get_max_length(self) -> int:
        return -1
