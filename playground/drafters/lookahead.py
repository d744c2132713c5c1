"""Lookahead decoding: the target guesses its own n-grams in a window that rides along, and checks earlier ones.

Fu et al. 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding".
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from playground.decoding.codec import JSON
from playground.decoding.drafting import NO_SIDE, Context, Outcome, Proposal, SideTokens
from playground.decoding.sampling import Sampling
from playground.decoding.tree import TokenTree
from playground.drafters.base import StatelessDrafter
from playground.drafters.ngram_pool import Change, NgramPool


class Lookahead(StatelessDrafter):
    """Window of `window` (W) columns and `ngram` - 1 (N - 1) levels, a pool of `guesses` (G) n-grams per first token.

    The window is a rectangle of guesses, oldest level first. Level l, column c guesses the token l + c positions
    after the last committed token, which itself is column 0 of level 0: so the window moves along with the text.
    A row sees level 0 up to its own column, and its own column in the levels below. The newest level's outputs are
    one more level, and then every column is an n-gram for the pool; the oldest level leaves.

    Level 0 starts as random tokens of the prompt, N - 2 columns wider, and the first N - 2 passes add a level and
    drop a column each. They are drawn by `random.Random(seed)`, as the paper's code draws them, once and before the
    first pass. Window outputs are the target's argmax also under sampling: they are guesses, and never emitted.

    The pool's n-grams that start with the last committed token are verified in the same pass. `compatible` emits at
    most N - 1 tokens a step, as the paper's code does, which never asks what follows a full match; otherwise a full
    match also gives its bonus token. With `pool_from_prompt` the n-grams of the prompt and of the output enter too.

    Near the end of the context the window pauses, as soon as its farthest guess (W + N - 3 positions after the last
    committed token) would lie beyond it. The pool goes on giving candidates, and after a rewind the window goes on.

    A Step's view:
      level       index of the newest filled level; N - 2 once the window is full
      paused      whether the window did not ride in this pass
      before      the window in this pass: levels of ids, [0][0] the last committed token
      results     outputs of the newest level in this pass, by column: the level that the pass adds; none if paused
      after       the window of the next pass
      diagonals   n-grams [N ids] that the window gave, by column; none before it is full
      pool        changes ["added" | "refreshed" | "evicted", [N ids]], in order; the prompt's in the first Step
      candidates  tried n-grams without their first token, oldest first: {"tokens": ids, "matched": how many}
    """

    def __init__(
        self, window: int, ngram: int, guesses: int, pool_from_prompt: bool = False, compatible: bool = False
    ) -> None:
        self.window, self.ngram, self.guesses = window, ngram, guesses
        self.pool_from_prompt, self.compatible = pool_from_prompt, compatible

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        fill = random.Random(sampling.seed)
        width = self.window + self.ngram - 3
        self.levels = [[prompt_ids[-1], *(fill.choice(prompt_ids) for _ in range(width))]]
        self.pool = NgramPool(self.guesses)
        self.changes: list[Change] = []
        if self.pool_from_prompt:
            self._insert(_ngrams(prompt_ids, self.ngram))

    def propose(self, context: Context) -> Proposal:
        last = len(context.ids) - 1
        self.tail = context.ids[1 - self.ngram :]
        self.levels = _anchored(self.levels, context.ids[last])
        self.paused = last + self.window + self.ngram - 3 > context.last_position
        depth = min(self.ngram - 2 if self.compatible else self.ngram - 1, context.room)
        known = self.pool.after(context.ids[last])
        self.candidates = [tokens[:depth] for tokens in known] if depth > 0 else []
        return Proposal(
            TokenTree.from_paths(self.candidates),
            side=NO_SIDE if self.paused else _side(self.levels, last),
            source="n-gram pool",
            reason="" if self.candidates else self._reason(context, bool(known)),
            view={"level": len(self.levels) - 1, "paused": self.paused, "before": _json(self.levels)},
        )

    def observe(self, outcome: Outcome) -> dict[str, JSON] | None:
        if outcome.judged is None or outcome.side_logits is None:
            return None  # a prefill
        diagonals: list[list[int]] = []
        results: list[int] = []
        if not self.paused:
            results = outcome.side_logits.argmax(-1).tolist()
            if len(self.levels) == 1:  # the newest level's column 0 is the last committed token, which is no side token
                results = [outcome.judged.target_token(-1), *results]
            grid = [*self.levels, results]
            if len(grid) == self.ngram:
                diagonals = [list(column) for column in zip(*grid, strict=True)]
                self.levels = grid[1:]
            else:
                self.levels = [level[1:] for level in grid]
        if outcome.emitted:
            self.levels = _anchored(self.levels, outcome.emitted[-1])
        self._insert(diagonals)
        if self.pool_from_prompt:
            self._insert(_ngrams([*self.tail, *outcome.emitted], self.ngram))
        changes, self.changes = self.changes, []
        return {
            "results": list(results),
            "after": _json(self.levels),
            "diagonals": _json(diagonals),
            "pool": [[change.kind, list(change.ngram)] for change in changes],
            "candidates": [
                {"tokens": list(tokens), "matched": _matched(tokens, outcome.emitted)} for tokens in self.candidates
            ],
        }

    def _insert(self, ngrams: Iterable[Sequence[int]]) -> None:
        for ngram in ngrams:
            self.changes += self.pool.insert(ngram)

    def _reason(self, context: Context, known: bool) -> str:
        if context.room <= 0:
            return "no room for a guess: this step emits the last token that fits"
        if known:
            return "with n-grams of 2 tokens, compatible mode emits one token a step and has nothing to verify"
        if not self.pool.found:
            return f"the pool is empty: the window has {len(self.levels)} of {self.ngram - 1} levels"
        return "no n-gram in the pool starts with the last token"


def _anchored(levels: list[list[int]], token: int) -> list[list[int]]:
    """The window with `token`, the last committed one, as column 0 of level 0."""
    return [[token, *levels[0][1:]], *levels[1:]]


def _side(levels: list[list[int]], last: int) -> SideTokens:
    """The window as side tokens: all of it but column 0 of level 0, which every row sees as committed text."""
    width = len(levels[0])
    ids = [token for level in levels for token in level][1:]
    positions = [last + level + column for level in range(len(levels)) for column in range(width)][1:]
    newest = range(max(len(ids) - width, 0), len(ids))
    return SideTokens(ids, positions, window_mask(len(levels), width), newest)


@lru_cache(maxsize=64)
def window_mask(levels: int, width: int) -> Tensor:
    """bool [levels * width - 1] squared: which cells each cell of the window sees, without the first cell."""
    cell = torch.arange(1, levels * width)
    level, column = cell // width, cell % width
    base = (level == 0) & (column <= column.unsqueeze(1))
    return base | ((level <= level.unsqueeze(1)) & (level > 0) & (column == column.unsqueeze(1)))


def _ngrams(ids: Sequence[int], size: int) -> list[Sequence[int]]:
    return [ids[at : at + size] for at in range(len(ids) - size + 1)]


def _matched(tokens: Sequence[int], emitted: Sequence[int]) -> int:
    """How many leading tokens of a candidate became output."""
    count = 0
    for token, kept in zip(tokens, emitted, strict=False):
        if token != kept:
            break
        count += 1
    return count


def _json(levels: list[list[int]]) -> list[JSON]:
    return [list(level) for level in levels]
