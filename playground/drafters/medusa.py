"""Medusa: extra heads on the target's last hidden state guess several positions at once, as a tree.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads".
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from playground.decoding.codec import JSON
from playground.decoding.drafting import Context, Outcome, Proposal
from playground.decoding.sampling import Sampling
from playground.decoding.tree import TokenTree, TreeShape
from playground.errors import UserError

SHOWN = 10
REMEMBERED = 128

Heads = Callable[[Tensor], Tensor]
"""Final hidden states [n, h] -> logits [heads, n, V]; head i (from 0) at position t guesses position t + 2 + i."""


class Medusa:
    """Proposes the heads' most probable tokens in the arrangement of a fixed tree.

    `choices` lists the nodes of the tree as paths of ranks: [0, 2] is the third guess of the second head, below the
    first guess of the first. The heads run once per step, on the newest hidden state alone; normally that is the row
    which produced the last committed token. Where tokens were committed from outside it is an older row, for which
    the next position is the business of a later head, and the tree ends with the last head. `notices` are those given
    and what of the tree was left out. The nodes carry no q: they are point masses.

    The step's view, where p is the head's own softmax at temperature 1:
        "row": position of the hidden state that the heads read
        "heads": for each head in use, in order of depth,
            {"head": its number from 1 as in the paper, "position": the one it guesses, "top": [[token, p], ...]}
            with as many tokens as the tree has ranks, at most 10
        "nodes": for each node of the Step, [head's number, rank from 0, p]
    """

    needs: Collection[int] = ()

    def __init__(
        self, heads: Heads, num_heads: int, choices: Sequence[Sequence[int]], notices: Sequence[str] = ()
    ) -> None:
        self.heads, self.num_heads = heads, num_heads
        self.shape, self.ranks = compile_tree(choices)
        self.notices = tuple(notices)
        if (depth := self.shape.depths[-1]) > num_heads:
            self.shape = self.shape.cut(num_heads)
            left_out = len(self.ranks) - len(self.shape)
            self.notices += (
                f"The tree is {depth} deep, but there are {num_heads} Medusa heads: "
                f"nodes below depth {num_heads} are left out, {left_out} in all.",
            )
        self.width = max(self.ranks[: len(self.shape)]) + 1

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        self.rows: deque[tuple[int, Tensor]] = deque(maxlen=REMEMBERED)  # position and hidden state [h], newest last

    def propose(self, context: Context) -> Proposal:
        if not self.rows:
            return Proposal(reason="the heads have no hidden state to read before the first pass")
        position, hidden = self.rows[-1]
        first = len(context.ids) - 2 - position
        shape = self.shape.cut(min(self.num_heads - first, context.room))
        if not len(shape):
            return Proposal(reason=f"the newest hidden state is too old for the {self.num_heads} heads")
        guesses = self._guesses(hidden, range(first, first + shape.depths[-1]))
        heads: list[JSON] = [
            {"head": head + 1, "position": position + 2 + head, "top": [[token, p] for token, p in top[:SHOWN]]}
            for head, top in enumerate(guesses, first)
        ]
        tokens, sources, nodes = [], [], list[JSON]()
        for depth, rank in zip(shape.depths, self.ranks, strict=False):
            token, p = guesses[depth - 1][rank]
            tokens.append(token)
            sources.append(f"head {first + depth} rank {rank}")
            nodes.append([first + depth, rank, p])
        view: dict[str, JSON] = {"row": position, "heads": heads, "nodes": nodes}
        return Proposal(TokenTree(tuple(tokens), shape), source=sources, view=view)

    @torch.inference_mode()
    def _guesses(self, hidden: Tensor, used: range) -> list[list[tuple[int, float]]]:
        """The most probable (token, p) of each head in `used`, by rank. One copy to the host: ids below 2^24 fit."""
        logits = self.heads(hidden.unsqueeze(0))[used.start : used.stop, 0].float()
        if self.width > logits.shape[-1]:
            raise UserError(
                f"The Medusa tree asks for rank {self.width - 1}, but the heads score {logits.shape[-1]} tokens. "
                "Choose a tree with lower ranks."
            )
        top, ids = logits.topk(self.width)
        p = (top - logits.logsumexp(-1, keepdim=True)).exp()
        pairs = torch.stack([ids.float(), p], -1).tolist()
        if any(math.isnan(head[0][1]) for head in pairs):
            raise UserError(
                "The Medusa heads' logits are not numbers (NaN). Load the heads in float32, or choose heads that were "
                "trained for this model."
            )
        return [[(int(token), value) for token, value in head] for head in pairs]

    def observe(self, outcome: Outcome) -> dict[str, JSON] | None:
        self.rows.extend(enumerate(outcome.hidden(), outcome.start))
        return None

    def rewind(self, count: int) -> None:
        # The newest row was the last but one token's. Where tokens came from outside since, it is older still and this
        # forgets more than it must: the next tree is shallower, and the next pass mends it.
        kept = self.rows[-1][0] - count if self.rows else -1
        while self.rows and self.rows[-1][0] > kept:
            self.rows.pop()


def compile_tree(choices: Sequence[Sequence[int]]) -> tuple[TreeShape, tuple[int, ...]]:
    """The shape of a tree of rank paths and the rank at each node, level by level, siblings by rank.

    Raises UserError for what is not a tree: no node, a rank that is not a whole number from 0, a missing parent.
    """
    for path in choices:
        if not path or not all(isinstance(rank, int) and rank >= 0 for rank in path):
            raise UserError(f"The Medusa tree holds {list(path)}; a node is a list of ranks from 0, such as [0, 2].")
    paths = sorted({tuple(path) for path in choices}, key=lambda path: (len(path), path))
    if not paths:
        raise UserError("The Medusa tree is empty. Give at least one node, such as [[0]].")
    at = {(): -1} | {path: node for node, path in enumerate(paths)}
    for path in paths:
        if path[:-1] not in at:
            raise UserError(
                f"The Medusa tree holds {list(path)} but not its parent. Add {list(path[:-1])} to the tree."
            )
    return TreeShape(tuple(at[path[:-1]] for path in paths)), tuple(path[-1] for path in paths)
