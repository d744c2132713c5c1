"""A drafter that knows the answer: it proposes the recorded continuation, spoilt exactly where a test wants it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from playground.decoding.drafting import NO_SIDE, Context, Outcome, Proposal, SideTokens
from playground.decoding.executor import causal
from playground.decoding.sampling import Sampling
from playground.decoding.tree import TokenTree, TreeShape
from playground.drafters.base import StatelessDrafter


@dataclass(frozen=True)
class Guess:
    """One proposal: a path of `depth` tokens of which the first `right` are the recorded ones.

    Every node of the path has `siblings` wrong siblings, of which `before` come before it. `side` wrong side tokens
    follow the text, each seeing those before it. `q` gives every node some distribution it might be drawn from.
    """

    depth: int = 4
    right: int = 4
    siblings: int = 0
    before: int = 0
    side: int = 0
    q: bool = False

    def accepted(self, room: int) -> int:
        """How many of its tokens a lossless rule must accept."""
        return max(0, min(self.right, self.depth, room))


class OracleDrafter(StatelessDrafter):
    """Proposes according to `guesses`, over and over. `truth` is the whole text that the target will write.

    Raises AssertionError as soon as the committed text leaves the recorded one. Everything that it learns is kept:
    `outcomes` in order, and for every pass with side tokens the text that each of them continued with its logits.
    """

    def __init__(self, truth: Sequence[int], guesses: Iterable[Guess], vocab: int, needs: Collection[int] = ()) -> None:
        self.truth, self.vocab, self.needs = list(truth), vocab, needs
        self.guesses = list(guesses)

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        self.coming = cycle(self.guesses)
        self.outcomes: list[Outcome] = []
        self.expected: list[int] = []
        self.side: list[tuple[list[int], Tensor]] = []
        self.asked: list[int] = []

    def propose(self, context: Context) -> Proposal:
        ids, guess = list(context.ids), next(self.coming)
        assert ids == self.truth[: len(ids)], "the output has changed"
        tree = self._tree(guess, self.truth[len(ids) :])
        self.expected.append(guess.accepted(context.room))
        side = NO_SIDE
        self.asked = []
        count = min(guess.side, context.last_position + 1 - len(ids))
        if count > 0:
            self.asked = [(ids[-1] + 5 * at + 1) % self.vocab for at in range(count)]
            positions = range(len(ids), len(ids) + count)
            side = SideTokens(self.asked, positions, causal(count), range(count))
            self.asked = ids + self.asked
        generator = torch.Generator().manual_seed(len(ids))
        q = [torch.rand(self.vocab, generator=generator).softmax(-1) for _ in range(len(tree))] if guess.q else None
        return Proposal(tree, q, side, source="oracle", reason="" if len(tree) else "asked to guess nothing")

    def observe(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.asked and outcome.side_logits is not None:
            self.side.append((self.asked, outcome.side_logits))

    def _tree(self, guess: Guess, truth: Sequence[int]) -> TokenTree:
        tokens: list[int] = []
        parents: list[int] = []
        parent = -1
        for at in range(guess.depth):
            right = truth[at] if at < len(truth) else 0
            wanted = right if at < guess.right else (right + 1) % self.vocab
            wrong = [(right + 2 + sibling) % self.vocab for sibling in range(guess.siblings)]
            layer = [*wrong[: guess.before], wanted, *wrong[guess.before :]]
            first = len(tokens)
            tokens += layer
            parents += [parent] * len(layer)
            parent = first + layer.index(wanted)
        return TokenTree(tuple(tokens), TreeShape(tuple(parents)))
