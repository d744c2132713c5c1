"""What a method is: something that proposes tokens and learns from what became of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from playground.decoding.acceptance import TargetView
from playground.decoding.codec import JSON
from playground.decoding.executor import Rows, Scratch
from playground.decoding.sampling import Sampling
from playground.decoding.target import FINAL, TargetModel
from playground.decoding.trace import Step
from playground.decoding.tree import EMPTY_TREE, TokenTree


@dataclass(frozen=True, slots=True)
class SideTokens:
    """Rows that ride in the pass without being verified; their outputs go back to the drafter.

    `ids`, `positions` [s]; `visible` bool [s, s] among themselves (they also see all committed tokens, and neither
    see nor are seen by the tree); `ask`: the rows whose logits the drafter wants.
    """

    ids: Sequence[int]
    positions: Sequence[int]
    visible: Tensor
    ask: Sequence[int]


NO_SIDE = SideTokens((), (), torch.zeros(0, 0, dtype=torch.bool), ())


@dataclass(slots=True)
class Proposal:
    """What a drafter offers for one pass.

    `q[i]` is the processed distribution [V] that node i was drawn from; None: the nodes are point masses.
    `reason` says why the tree is empty. `source` names the origin of every node (or of each, as a sequence).
    `view` is what the page shows of the method's inner life, `children` the Steps of a nested session.
    """

    tree: TokenTree = EMPTY_TREE
    q: Sequence[Tensor] | None = None
    side: SideTokens = NO_SIDE
    source: str | Sequence[str] = ""
    reason: str = ""
    view: dict[str, JSON] = field(default_factory=dict)
    children: list[Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Context:
    """What a drafter may look at: committed ids, of which `prompt` came from the user, and the way they are sampled.

    `room` is the greatest useful depth: one less than the tokens that still fit, since a pass also emits its own.
    `last_position` bounds the positions of side tokens. `scratch(model)` reads with a cut model on the target's cache.
    """

    ids: Sequence[int]
    prompt: int
    room: int
    last_position: int
    sampling: Sampling
    scratch: Callable[[TargetModel], Scratch]


@dataclass(slots=True)
class Outcome:
    """What a pass gave, for the drafter to learn from.

    `kept` are the rows of the pass that stayed in the cache, at positions `start` onwards; `rows` gives hidden states
    and logits of any row. `path` are the accepted nodes and `emitted` the new tokens (none for a prefill).
    `side_logits` [len(ask), V] answers the proposal's side tokens. `judged` is what the target says after every
    node, rejected ones too, processed as the acceptance rule saw it; None for a prefill.
    """

    start: int
    kept: Sequence[int]
    rows: Rows
    path: Sequence[int] = ()
    emitted: Sequence[int] = ()
    side_logits: Tensor | None = None
    judged: TargetView | None = None

    def hidden(self, layer: int = FINAL) -> Tensor:
        """Hidden states [len(kept), h] of the kept rows."""
        return self.rows.hidden[layer][list(self.kept)]


class Drafter(Protocol):
    """A method of speculative decoding. It owns its caches and nothing of it survives a run.

    `needs`: hidden layers that it reads in outcomes; `notices`: what the user should know about how it was set up,
    complete after start. Calls come in the order start, (propose, observe)*, with rewind between steps; a prefill is
    observed before the first proposal.
    """

    needs: Collection[int]

    @property
    def notices(self) -> Sequence[str]: ...

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None: ...

    def propose(self, context: Context) -> Proposal: ...

    def observe(self, outcome: Outcome) -> dict[str, JSON] | None:
        """Learn from a pass. What is returned is added to the Step's view."""
        ...

    def rewind(self, count: int) -> None:
        """The last `count` committed tokens are taken back."""
        ...
