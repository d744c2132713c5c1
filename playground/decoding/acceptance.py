"""Which proposed tokens stay, and which token follows them. One function per rule; all walk the same tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from playground.decoding.sampling import Purpose, Sampling, draw, uniform
from playground.decoding.trace import Node, Status, Visited
from playground.decoding.tree import TokenTree
from playground.errors import UserError

TOP = 8


class TargetView:
    """What the target says after each node of a proposal: processed logits and probabilities, on demand.

    `logits` [1 + n, V]: row 0 follows the last committed token, row 1 + i follows node i. `ids` is the committed
    text; a row's prefix is `ids` and the node's own ancestors, which is what the repetition penalty looks at.
    `position` is the absolute position of the first token that this step emits.
    """

    def __init__(self, logits: Tensor, tree: TokenTree, ids: Sequence[int], sampling: Sampling) -> None:
        self.raw, self.tree, self.ids, self.sampling = logits, tree, ids, sampling
        self.position = len(ids)  # a session's ids grow once the verdict is in; this view stays where it was
        self.penalised = sampling.repetition_penalty != 1
        most = logits.max(-1)
        if not all(map(math.isfinite, most.values.tolist())):
            raise UserError(
                "The target's logits are not finite numbers (NaN or infinity). Load the model in float32, "
                "or choose another model."
            )
        self._argmax: list[int] = most.indices.tolist()
        self._logits: dict[int, Tensor] = {}
        self._p: dict[int, Tensor] = {}

    def depth(self, node: int) -> int:
        return self.tree.shape.depths[node] if node >= 0 else 0

    def logits(self, node: int) -> Tensor:
        """Processed logits [V] after `node` (-1: after the last committed token)."""
        if node not in self._logits:
            row = self.raw[node + 1 : node + 2]
            seen = None
            if self.penalised:
                prefix = [*self.ids[: self.position], *self.tree.path_tokens(node)]
                seen = seen_mask([prefix], self.raw)
            self._logits[node] = self.sampling.processed(row, seen)[0]
        return self._logits[node]

    def p(self, node: int) -> Tensor:
        """Processed probabilities [V] after `node`. Under greedy sampling: the softmax, for display."""
        if node not in self._p:
            self._p[node] = self.logits(node).softmax(-1)
        return self._p[node]

    def target_token(self, node: int) -> int:
        """The target's own next token after `node`: its argmax, or its draw at that position."""
        if self.sampling.greedy:
            return int(self.logits(node).argmax()) if self.penalised else self._argmax[node + 1]
        return draw(self.p(node), self.u(node, Purpose.TARGET))

    def u(self, node: int, purpose: Purpose, index: int = 0) -> float:
        """The uniform number for the token that follows `node`."""
        return uniform(self.sampling.seed, self.position + self.depth(node), purpose, index)


def seen_mask(prefixes: Sequence[Sequence[int]], logits: Tensor) -> Tensor:
    """bool [len(prefixes), V]: the ids that occur in each prefix."""
    seen = torch.zeros(len(prefixes), logits.shape[-1], dtype=torch.bool, device=logits.device)
    for row, prefix in enumerate(prefixes):
        seen[row, torch.tensor(prefix, dtype=torch.long, device=logits.device)] = True
    return seen


@dataclass(slots=True)
class Verdict:
    """`path`: accepted nodes in order. `final`: the token after them. `nodes`: every node with its fate.

    `visited`: nodes (or -1) at which the target was asked, in order. `residual`: the distribution that the final
    token was drawn from where it is not the target's own.
    """

    path: list[int]
    final: int
    status: Status
    nodes: list[Node]
    visited: list[int] = field(default_factory=list)
    residual: Tensor | None = None


class Rule(Protocol):
    """Decides over a proposal. `q[i]` is the distribution [V] that node i was drawn from, or q is None."""

    def __call__(self, view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict: ...


def exact(view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict:
    """The lossless rule that fits: greedy or draw-and-match for point-mass nodes, speculative sampling for real q."""
    if q is None:
        return match(view, nodes)
    if view.sampling.greedy:
        for node, law in zip(nodes, q, strict=True):
            node.q = float(law[node.token])  # shown, not used: greedy acceptance compares tokens
        return match(view, nodes)
    return speculative(view, nodes, q)


def match(view: TargetView, nodes: list[Node]) -> Verdict:
    """Follow the child that has the target's own token, argmax or one draw per position; otherwise emit that token.

    Every emitted token is the target's own, so the output is that of autoregressive decoding with the same noise,
    whatever was proposed.
    """
    children = view.tree.shape.children
    at = -1
    path: list[int] = []
    visited: list[int] = []
    while True:
        token = view.target_token(at)
        u = None if view.sampling.greedy else view.u(at, Purpose.TARGET)
        visited.append(at)
        wanted = "the target's most probable token" if u is None else "the target's draw"
        matched = -1
        for child in children[at]:
            node = nodes[child]
            node.u = u
            if matched < 0 and node.token == token:
                matched, node.status, node.reason = child, Status.ACCEPTED, wanted
            else:
                node.status, node.reason = Status.REJECTED, f"not {wanted}"
        if matched < 0:
            return _verdict(view, nodes, path, token, visited)
        path.append(matched)
        at = matched


def speculative(view: TargetView, nodes: list[Node], q: Sequence[Tensor]) -> Verdict:
    """Speculative sampling (Leviathan et al. 2023, Algorithm 1; Chen et al. 2023) on a tree.

    Accept x with probability min(1, p(x)/q(x)); after a rejection p becomes norm(max(0, p - q)). Siblings were drawn
    without replacement, so each is judged against q renormalised over what had not been tried before it.
    """
    children = view.tree.shape.children
    at = -1
    path: list[int] = []
    visited: list[int] = []
    residual: Tensor | None = None
    while True:
        visited.append(at)
        p, taken = view.p(at), -1
        remaining: Tensor | None = None
        for index, child in enumerate(children[at]):
            node = nodes[child]
            draft = q[child] if remaining is None else remaining / remaining.sum()
            ratio = float(p[node.token] / draft[node.token]) if draft[node.token] > 0 else 0.0
            node.q, node.p = float(draft[node.token]), float(p[node.token])
            node.threshold, node.u = min(1.0, ratio), view.u(at, Purpose.ACCEPT, index)
            if node.u < node.threshold:
                node.status, node.reason, taken = Status.ACCEPTED, "u < min(1, p/q)", child
                break
            node.status, node.reason = Status.REJECTED, "u ≥ min(1, p/q)"
            p = residual_of(p, draft)
            remaining = draft.clone()
            remaining[node.token] = 0
        if taken < 0:
            tested = bool(children[at])
            final = draw(p, view.u(at, Purpose.RESIDUAL if tested else Purpose.TARGET))
            return _verdict(view, nodes, path, final, visited, p if tested else residual)
        path.append(taken)
        at = taken


def residual_of(p: Tensor, q: Tensor) -> Tensor:
    """norm(max(0, p - q)); p itself where the two agree to the last bit and nothing is left to draw from."""
    rest = (p - q).clamp_min(0)
    total = rest.sum()
    return rest / total if total > 0 else p


@dataclass(frozen=True, slots=True)
class Typical:
    """Typical acceptance (Medusa, section 2.3.1): keep x if p(x) > min(epsilon, alpha * exp(-H)). LOSSY.

    The longest accepted path wins, ties by the sum of log p; the token after it is the target's argmax, as published.
    Without temperature it is the greedy rule, also as published.
    """

    epsilon: float = 0.09
    alpha: float = 0.3

    def __post_init__(self) -> None:
        for name, value in (("posterior_threshold", self.epsilon), ("posterior_alpha", self.alpha)):
            if not 0 < value <= 1:
                raise UserError(f"{name} is {value}; it must lie above 0 and be at most 1.")

    def __call__(self, view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict:
        if view.sampling.greedy:
            return match(view, nodes)
        children = view.tree.shape.children
        scores: dict[int, float] = {-1: 0.0}
        visited: list[int] = []
        for at in range(-1, len(nodes)):
            if at not in scores or (at >= 0 and not children[at]):
                continue
            visited.append(at)
            p = view.p(at)
            entropy = -float((p * torch.log(p + 1e-5)).sum())
            threshold = min(self.epsilon, self.alpha * math.exp(-entropy))
            for child in children[at]:
                node = nodes[child]
                node.p, node.threshold = float(p[node.token]), threshold
                if node.p > threshold:
                    scores[child] = scores[at] + math.log(node.p)
                    node.reason = "typical enough, but on a shorter or less probable path"
                else:
                    node.status, node.reason = Status.REJECTED, "p ≤ min(epsilon, alpha·exp(-H))"
        best = max(scores, key=lambda node: (view.depth(node), scores[node]))
        path = view.tree.shape.path(best)
        for acceptable in scores:
            if acceptable >= 0:
                nodes[acceptable].status = Status.REJECTED
        for at in path:
            nodes[at].status, nodes[at].reason = Status.ACCEPTED, "p > min(epsilon, alpha·exp(-H))"
        if best not in visited:
            visited.append(best)
        return _verdict(view, nodes, path, int(view.logits(best).argmax()), visited)


def _verdict(
    view: TargetView,
    nodes: list[Node],
    path: list[int],
    final: int,
    visited: list[int],
    residual: Tensor | None = None,
) -> Verdict:
    end = path[-1] if path else -1
    if not nodes:
        status = Status.PLAIN
    else:
        status = Status.CORRECTED if view.tree.shape.children[end] else Status.BONUS
    _fill_p(view, nodes, visited)
    return Verdict(path, final, status, nodes, visited, residual)


def _fill_p(view: TargetView, nodes: list[Node], visited: list[int]) -> None:
    """p of every judged node, gathered in one operation."""
    asked = [(at, child) for at in visited for child in view.tree.shape.children[at] if nodes[child].p is None]
    if asked:
        rows = torch.stack([view.p(at) for at in dict.fromkeys(at for at, _ in asked)])
        row_of = {at: row for row, at in enumerate(dict.fromkeys(at for at, _ in asked))}
        picked = rows[[row_of[at] for at, _ in asked], [nodes[child].token for _, child in asked]]
        for (_, child), value in zip(asked, picked.tolist(), strict=True):
            nodes[child].p = value


def full_detail(view: TargetView, verdict: Verdict, q: Sequence[Tensor] | None) -> list[Visited]:
    """The most probable tokens of p, q and the residual at every node that was visited, and the one emitted there."""
    tokens = [*(view.tree.tokens[node] for node in verdict.path), verdict.final]
    emitted = dict(zip([-1, *verdict.path], tokens, strict=True))
    detail = []
    for at in verdict.visited:
        token = emitted.get(at)
        entry = Visited(at, *_top(view.p(at), token))
        children = view.tree.shape.children[at]
        if q is not None and children:
            entry.q, entry.q_rest = _top(q[children[0]], token)
        if verdict.residual is not None and at == verdict.visited[-1]:
            entry.residual, entry.residual_rest = _top(verdict.residual, token)
        detail.append(entry)
    return detail


def _top(p: Tensor, token: int | None) -> tuple[list[tuple[int, float]], float]:
    """The most probable tokens of p, then `token` where it is none of them; and the mass left over."""
    ids: list[int] = p.topk(min(TOP, p.shape[0])).indices.tolist()
    if token is not None and token not in ids:
        ids.append(token)
    pairs = [(at, value) for at, value in zip(ids, p[ids].tolist(), strict=True) if value > 0]
    return pairs, max(0.0, 1.0 - sum(value for _, value in pairs))
