"""The next token, drawn many times through a method, against what the target says of it.

The law of the next token needs no new passes: target and draft say the same at the same place, whatever the noise.
One step of the method gives both; then the draft's draw and the acceptance rule are run again under other seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from playground.decoding.acceptance import Rule, TargetView, Verdict, exact
from playground.decoding.sampling import Purpose, derived_seed, draw, uniform
from playground.decoding.session import Session, decode
from playground.decoding.trace import Node, Status
from playground.decoding.tree import TokenTree

EXPECTED = 5  # draws that a bin of the chi-squared test expects at least


@dataclass(frozen=True)
class Judged:
    """What a step was judged on: the target's view, the draft's distributions (None: point masses), and the rule."""

    view: TargetView
    q: Sequence[Tensor] | None
    rule: Rule

    @property
    def p(self) -> Tensor:
        """The target's own processed distribution [V] of the next token."""
        return self.view.p(-1)


def listen(session: Session, gate: AbstractContextManager[object] | None = None) -> Judged:
    """Makes one step of `session` and tells what it was judged on. A prompt that was not read yet is read first.

    `gate` is held during a forward.
    """
    heard = _Listener(session.rule)
    session.rule = heard
    next(decode([session], gate))
    session.rule = heard.rule
    view, q = heard.heard
    return Judged(view, q, heard.rule)


class _Listener:
    """A rule that remembers what it judged."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __call__(self, view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict:
        self.heard = view, q
        return self.rule(view, nodes, q)


def next_tokens(judged: Judged, seeds: Iterable[int], rule: Rule | None = None) -> Iterator[int]:
    """The token that the method commits first under each seed; `rule` replaces the method's own.

    Guesses that carry a q are drawn anew, as the draft model does it: the first of the chain, which alone decides over
    the next token. Point masses are guessed whatever the seed, and are judged as they were.
    """
    rule = rule or judged.rule
    view = judged.view
    drafted = judged.q is not None and len(view.tree) > 0
    if drafted:
        # What follows the guess is asked for by the rule and not used here: any row will do.
        view = TargetView(view.raw[[0, 0]], TokenTree.chain([0]), view.ids[: view.position], view.sampling)
        view.p(-1)
    for seed in seeds:
        again = copy(view)  # what was worked out so far is shared: it does not depend on the seed
        again.sampling = replace(view.sampling, seed=seed)
        q = None
        if drafted and judged.q is not None:
            q = judged.q[:1]
            again.tree = TokenTree.chain([draw(q[0], _draft_u(seed, view.position))])
        tree = again.tree
        nodes = [
            Node(parent, token, Status.NEVER_REACHED)
            for parent, token in zip(tree.shape.parents, tree.tokens, strict=True)
        ]
        verdict = rule(again, nodes, q)
        yield tree.tokens[verdict.path[0]] if verdict.path else verdict.final


def _draft_u(seed: int, position: int) -> float:
    """The draft's noise for its first guess: its own stream of the run's seed."""
    return uniform(derived_seed(seed, Purpose.INNER), position, Purpose.TARGET)


def without_residual(view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict:
    """The exact rule with a common mistake: after a rejection the token is drawn from p, not from norm(max(0, p - q)).

    What draft and target agree on then comes too often. For showing that it matters; no method uses it.
    """
    verdict = exact(view, nodes, q)
    if verdict.status is Status.CORRECTED and verdict.residual is not None:
        end = verdict.path[-1] if verdict.path else -1
        verdict.final = draw(view.p(end), view.u(end, Purpose.RESIDUAL))
    return verdict


@dataclass(frozen=True)
class Fit:
    """Pearson's chi-squared test: `p_value` is how often draws from the law itself would lie as far off or farther."""

    statistic: float
    bins: int
    p_value: float


def fit(counts: Mapping[int, int], p: Tensor) -> Fit:
    """Counted tokens against their law p [V]. Tokens expected fewer than five times form one bin."""
    n = sum(counts.values())
    law = p.double().cpu()
    seen = torch.zeros_like(law)
    for token, count in counts.items():
        seen[token] = count
    expected = n * law / law.sum()
    if bool((seen[expected == 0] > 0).any()):
        return Fit(torch.inf, int((expected >= EXPECTED).sum()), 0.0)
    likely = expected >= EXPECTED
    bins = torch.stack([seen[likely], expected[likely]], 1)
    rest = torch.stack([seen[~likely].sum(), expected[~likely].sum()])
    if rest[1] >= EXPECTED or not len(bins):
        bins = torch.cat([bins, rest[None]])
    else:  # too little for a bin of its own
        bins[bins[:, 1].argmin()] += rest
    if len(bins) < 2:
        return Fit(0.0, len(bins), 1.0)
    statistic = ((bins[:, 0] - bins[:, 1]) ** 2 / bins[:, 1]).sum()
    survival = torch.special.gammaincc(torch.tensor((len(bins) - 1) / 2, dtype=torch.float64), statistic / 2)
    return Fit(float(statistic), len(bins), float(survival))
