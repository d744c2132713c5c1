"""One forward of the model for one sequence, or for several packed together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

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


class Reading:
    """A prompt that several executors of one model read, each for one sequence: every chunk is computed once.

    Whoever comes to a chunk first computes it. The others take over what that wrote to the cache and what it gave, and
    are charged the seconds that it took, so that their clocks are what they would be alone. Where they ask for layers
    that the first did not, they compute. Nothing is copied ahead: until it is taken over, it lies in the first one's
    cache, where the rows of a prompt stay as they are. An executor lets go of the reading with its first pass; when all
    have, nothing of it is left.
    """

    def __init__(self) -> None:
        self._chunks: dict[tuple[int, int], _Chunk] = {}

    def find(self, start: int, end: int, layers: Collection[int]) -> _Chunk | None:
        """The tokens from `start` to `end`, where they were read, and these layers of theirs."""
        chunk = self._chunks.get((start, end))
        return chunk if chunk is not None and chunk.rows.hidden.keys() >= set(layers) else None

    def add(self, start: int, end: int, chunk: _Chunk) -> None:
        self._chunks[start, end] = chunk


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Tokens of a prompt as they were first read: keys and values by layer, what the forward gave, how long it took."""

    states: Mapping[int, tuple[Tensor, Tensor]]
    rows: Rows
    seconds: float


class Executor:
    """A model and the cache of the sequences that run on it together. Naive batching is several sequences in here.

    `reading` is what it shares with other executors of this model whose one sequence has the same prompt.
    """

    def __init__(self, model: TargetModel, rows: int = 1) -> None:
        self.model = model
        self.cache: KVCache = model.new_cache(rows)
        self.reading: Reading | None = None

    def read(self, texts: Mapping[int, Sequence[int]], layers: Collection[int]) -> tuple[dict[int, Rows], float]:
        """One forward for what the cache lacks of the texts of these rows, and the seconds that it took.

        With a `reading`, it may have been another executor's, see there.
        """
        began = perf_counter()
        reading, start, end = self.reading, self.cache.lengths[0], len(texts.get(0, ()))
        if reading is not None and (chunk := reading.find(start, end, layers)) is not None:
            self.cache.write(start, end, chunk.states)
            return {0: chunk.rows}, chunk.seconds
        rows = self._forward({row: self._rest(row, text) for row, text in texts.items()}, layers, self.model, {})
        if reading is not None:
            rows[0].hidden[FINAL][-1].cpu()  # waits for an accelerator
        seconds = perf_counter() - began
        if reading is not None:
            reading.add(start, end, _Chunk(self.cache.view(start, end), rows[0], seconds))
        return rows, seconds

    def _rest(self, row: int, text: Sequence[int]) -> Pass:
        done = self.cache.lengths[row]
        return Pass(text[done:], range(done, len(text)), causal(len(text) - done))

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
        self.reading = None  # who makes a pass has read the prompt
        return self._forward(passes, layers, model or self.model, past or {})

    def _forward(
        self, passes: Mapping[int, Pass], layers: Collection[int], model: TargetModel, past: Mapping[int, int]
    ) -> dict[int, Rows]:
        rows, width = self.cache.rows, max(len(one.ids) for one in passes.values())
        lengths = [past.get(row, length) for row, length in enumerate(self.cache.lengths)]
        end = max(lengths) + width
        ids, positions = [[0] * width for _ in lengths], [[0] * width for _ in lengths]
        mask = torch.zeros(rows, width, end, dtype=torch.bool)
        for row, length in enumerate(lengths):
            one = passes.get(row)
            used = len(one.ids) if one else 0
            if one:
                ids[row][:used], positions[row][:used] = one.ids, one.positions
                mask[row, :used, :length] = True
                mask[row, :used, length : length + used] = one.visible
            if used < width:  # a row that sees nothing would be NaN: padding sees itself
                mask[row, used:, length + used : length + width].fill_diagonal_(True)
        slots = [[*range(length, length + width)] for length in lengths]
        places = torch.tensor([ids, positions, slots])
        self.cache.begin(places[2], end)
        read, at = places[:2].to(model.device)
        hidden = model.forward(read, at, mask.to(model.device), self.cache, layers)
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
