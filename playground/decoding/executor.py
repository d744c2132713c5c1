"""One forward of the model for one sequence, or for several packed together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from playground.decoding.cache import KVCache
from playground.decoding.target import FINAL, TargetModel


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows of one sequence for one forward: ids and positions [q], and which of the rows each may see.

    Every row sees the whole cache of its sequence. `visible` is bool [q, q].
    """

    ids: Sequence[int]
    positions: Sequence[int]
    visible: Tensor


@dataclass(slots=True)
class Rows:
    """What a forward gave for one sequence: hidden states [q, h] by layer, logits on demand."""

    model: TargetModel
    hidden: dict[int, Tensor]

    def logits(self, at: slice | Sequence[int]) -> Tensor:
        """Logits [n, V] of the chosen rows."""
        return self.model.logits(self.hidden[FINAL][at])


class Executor:
    """A model and the cache of the sequences that run on it together. Naive batching is several sequences in here."""

    def __init__(self, model: TargetModel, rows: int = 1) -> None:
        self.model = model
        self.cache: KVCache = model.new_cache(rows)

    def run(
        self,
        passes: Mapping[int, Pass],
        layers: Collection[int] = (FINAL,),
        model: TargetModel | None = None,
        past: Mapping[int, int] | None = None,
    ) -> dict[int, Rows]:
        """One forward for the passes of these rows of the cache.

        Sequences without a pass, and those with a shorter one, are padded: that is the waste of naive batching.
        `past` replaces the cached length of a row, `model` the model (a cut one, on scratch rows).
        """
        model = model or self.model
        rows, width = self.cache.rows, max(len(one.ids) for one in passes.values())
        lengths = [(past or {}).get(row, length) for row, length in enumerate(self.cache.lengths)]
        end = max(lengths) + width
        places = torch.zeros(2, rows, width, dtype=torch.long)
        mask = torch.zeros(rows, width, end, dtype=torch.bool)
        for row, length in enumerate(lengths):
            one = passes.get(row)
            used = len(one.ids) if one else 0
            if one:
                places[:, row, :used] = torch.tensor([one.ids, list(one.positions)])
                mask[row, :used, :length] = True
                mask[row, :used, length : length + used] = one.visible
            if used < width:  # a row that sees nothing would be NaN: padding sees itself
                mask[row, used:, length + used : length + width].fill_diagonal_(True)
        slots = torch.tensor(lengths).unsqueeze(1) + torch.arange(width)
        self.cache.begin(slots, end)
        ids, positions = places.to(model.device)
        hidden = model.forward(ids, positions, mask.to(model.device), self.cache, layers)
        return {
            row: Rows(model, {layer: states[row, : len(one.ids)] for layer, states in hidden.items()})
            for row, one in passes.items()
        }


class Scratch:
    """Uncommitted rows of a sequence's own cache, read by the first layers of its model.

    Nothing needs to be undone: the rows lie past the cached length and the next pass overwrites them.
    """

    def __init__(self, executor: Executor, row: int, model: TargetModel) -> None:
        self.executor, self.row, self.model = executor, row, model
        self.length = executor.cache.lengths[row]

    def read(self, ids: Sequence[int]) -> Tensor:
        """Read ids after what the cache and this scratch hold; logits [V] after the last of them."""
        positions = range(self.length, self.length + len(ids))
        one = Pass(ids, positions, causal(len(ids)))
        out = self.executor.run({self.row: one}, model=self.model, past={self.row: self.length})
        self.length += len(ids)
        return out[self.row].logits([len(ids) - 1])[0]


def causal(width: int) -> Tensor:
    """bool [width, width]: each row sees itself and the rows before it."""
    return torch.ones(width, width, dtype=torch.bool).tril()
