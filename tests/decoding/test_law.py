"""The law of the output: chi-squared over all texts of four tokens, and mutants that the same test must catch.

Methods with a real q need not emit the autoregressive tokens, but must have the target's distribution. Everything is
exact here but the counting: a table target of six tokens, its processed law worked out text by text.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, product

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from playground.decoding import acceptance
from playground.decoding.acceptance import Rule, TargetView, Verdict, exact, residual_of, seen_mask
from playground.decoding.drafting import Context, Drafter, Proposal
from playground.decoding.executor import Executor
from playground.decoding.sampling import Purpose, Sampling, draw, uniform
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.trace import Node, Status
from playground.decoding.tree import TokenTree, TreeShape
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.base import StatelessDrafter
from playground.drafters.draft_model import DraftModel

V, LENGTH = 6, 4
DRAWS, FEW, BATCH = 20_000, 4_000, 50
PROMPT = [3]  # before it the table reads token 0
TARGET = TableTarget.random(V, 2, seed=11, sharpness=0.8)
DRAFT = TableTarget.random(V, 2, seed=12)
SAMPLING = Sampling(temperature=0.8, top_k=5)


def p_value(counts: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """Chi-squared test of counted texts against their law; texts expected fewer than five times form one bin."""
    n = sum(counts.values())
    if any(law[text] == 0 for text in counts):
        return 0.0
    bins = [(counts[text], n * p) for text, p in law.items() if n * p >= 5]
    rest = n - sum(seen for seen, _ in bins), n - sum(expected for _, expected in bins)
    bins += [rest] if rest[1] > 0 else []
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in bins)
    return float(chi2.sf(statistic, len(bins) - 1))


def law_of(sampling: Sampling) -> dict[tuple[int, ...], float]:
    """The probability of every text of four tokens under the target: processed logits over the growing prefix."""
    texts = list(product(range(V), repeat=LENGTH))
    law = torch.ones(len(texts), dtype=torch.float64)
    for at in range(LENGTH):
        prefixes = [[0, *PROMPT, *text[:at]] for text in texts]
        logits = torch.stack([TARGET.table[prefix[-2], prefix[-1]] for prefix in prefixes])
        p = sampling.processed(logits, seen_mask(prefixes, logits)).softmax(-1).double()
        law *= p[range(len(texts)), [text[at] for text in texts]]
    return dict(zip(texts, law.tolist(), strict=True))


def drawn(make: Callable[[], Drafter], rule: Rule = exact, draws: int = DRAWS) -> Counter[tuple[int, ...]]:
    """Texts of four tokens, each by a run of its own with its own seed; a batch of runs shares its forwards."""
    counts: Counter[tuple[int, ...]] = Counter()
    for first in range(0, draws, BATCH):
        executor = Executor(TARGET, BATCH)
        runs = [
            Session(
                executor, make(), PROMPT, replace(SAMPLING, seed=first + row), rule=rule, max_new_tokens=LENGTH, row=row
            )
            for row in range(BATCH)
        ]
        for _ in decode(runs):
            pass
        counts.update(tuple(run.output) for run in runs)
    return counts


LAW = law_of(SAMPLING)


# --- drafters that cost little: their laws are rows of a table

Q = (DRAFT.table / SAMPLING.temperature).softmax(-1)
Q_LIST = Q.tolist()


class TableDrafter(StatelessDrafter):
    """Draws a tree from the draft table: `siblings` children per node without replacement, `depth` deep."""

    def __init__(self, depth: int = 3, siblings: int = 1) -> None:
        self.depth, self.siblings = depth, siblings

    def start(self, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        self.seed = sampling.seed

    def propose(self, context: Context) -> Proposal:
        tokens: list[int] = []
        parents: list[int] = []
        q: list[Tensor] = []

        def grow(parent: int, text: list[int], depth: int) -> None:
            if depth > 0:
                for token in self.children(text, len(tokens)):
                    tokens.append(token)
                    parents.append(parent)
                    q.append(Q[text[-2], text[-1]])
                    grow(len(tokens) - 1, [*text, token], depth - 1)

        grow(-1, [0, *context.ids], min(self.depth, context.room))
        return Proposal(TokenTree(tuple(tokens), TreeShape(tuple(parents))), q)

    def children(self, text: list[int], node: int) -> list[int]:
        """Tokens after a 0 and the text; `node` makes every draw's random number its own."""
        left = list(Q_LIST[text[-2]][text[-1]])
        found: list[int] = []
        for at in range(self.siblings):
            found.append(pick(left, uniform(self.seed, len(text) - 1, Purpose.INNER, node + at)))
            left[found[-1]] = 0.0
        return found


def pick(weights: Sequence[float], u: float) -> int:
    """The token at `u` of the cumulated weights."""
    cumulated = list(accumulate(weights))
    return min(bisect(cumulated, u * cumulated[-1]), len(weights) - 1)


class ArgmaxDrafter(TableDrafter):
    """Proposes the draft's most probable tokens as point masses."""

    def children(self, text: list[int], node: int) -> list[int]:
        return DRAFT.table[text[-2], text[-1]].topk(self.siblings).indices.tolist()

    def propose(self, context: Context) -> Proposal:
        return Proposal(super().propose(context).tree)


# --- what is right


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: DraftModel(DRAFT, Autoregressive, 2, V), id="draft-model"),
        pytest.param(lambda: DraftModel(DRAFT, Autoregressive, 3, V, confidence=0.4), id="draft-model, confidence"),
        pytest.param(lambda: TableDrafter(2, 2), id="siblings without replacement"),
        pytest.param(lambda: ArgmaxDrafter(2, 2), id="point masses"),
    ],
)
def test_the_output_has_the_target_s_law(make: Callable[[], Drafter]) -> None:
    assert p_value(drawn(make), LAW) > 1e-3


# --- what is wrong


class ArgmaxWithSoftmax(TableDrafter):
    """Proposes the most probable token and claims to have drawn it from the softmax."""

    def children(self, text: list[int], node: int) -> list[int]:
        return [int(Q[text[-2], text[-1]].argmax())]


class DropsTheUnsure(TableDrafter):
    """Draws a token and drops it, with what would follow, where its probability is low."""

    def children(self, text: list[int], node: int) -> list[int]:
        found = super().children(text, node)
        return [token for token in found if Q_LIST[text[-2]][text[-1]][token] >= 0.3]


class SortedSiblings(TableDrafter):
    """Draws siblings without replacement and forgets which came first."""

    def children(self, text: list[int], node: int) -> list[int]:
        return sorted(super().children(text, node))


class MergedSiblings(TableDrafter):
    """Draws siblings with replacement and merges equal ones."""

    def children(self, text: list[int], node: int) -> list[int]:
        q = Q_LIST[text[-2]][text[-1]]
        numbers = [uniform(self.seed, len(text) - 1, Purpose.INNER, node + at) for at in range(self.siblings)]
        return list(dict.fromkeys(pick(q, u) for u in numbers))


def judged_by_the_whole_q(view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict:
    """Speculative sampling that does not take tried siblings out of q: right for draws with replacement only."""
    assert q is not None
    at, path = -1, []
    while True:
        p, taken = view.p(at), -1
        for index, child in enumerate(view.tree.shape.children[at]):
            token = nodes[child].token
            if view.u(at, Purpose.ACCEPT, index) < p[token] / q[child][token]:
                taken = child
                break
            p = residual_of(p, q[child])
        if taken < 0:
            return Verdict(path, draw(p, view.u(at, Purpose.RESIDUAL)), Status.CORRECTED, nodes)
        path.append(taken)
        at = taken


def judged_by_raw_logits(view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict:
    """Verification that forgets temperature, top-k and penalty."""
    return exact(TargetView(view.raw, view.tree, view.ids, Sampling(1.0, seed=view.sampling.seed)), nodes, q)


class JudgesByTheDraw(TargetView):
    """The random number that drew a token decides over it too."""

    def u(self, node: int, purpose: Purpose, index: int = 0) -> float:
        return super().u(node, Purpose.INNER if purpose is Purpose.ACCEPT else purpose, index)


class DrawsByTheJudgement(TargetView):
    """The random number that rejected a token draws the one in its place."""

    def u(self, node: int, purpose: Purpose, index: int = 0) -> float:
        return super().u(node, Purpose.ACCEPT if purpose is Purpose.RESIDUAL else purpose, index)


def seen_as(kind: type[TargetView]) -> Rule:
    """The right rule over a view whose random numbers are reused."""

    def rule(view: TargetView, nodes: list[Node], q: Sequence[Tensor] | None) -> Verdict:
        return exact(kind(view.raw, view.tree, view.ids, view.sampling), nodes, q)

    return rule


MUTANTS: dict[str, tuple[Callable[[], Drafter], Rule, int]] = {
    "argmax judged by softmax": (lambda: ArgmaxWithSoftmax(3), exact, FEW),
    "raw logits": (lambda: TableDrafter(3), judged_by_raw_logits, FEW),
    "the draft's random number judges it": (lambda: TableDrafter(1), seen_as(JudgesByTheDraw), FEW),
    "the judging number draws the residual": (lambda: TableDrafter(3), seen_as(DrawsByTheJudgement), FEW),
    "unsure tokens dropped": (lambda: DropsTheUnsure(3), exact, FEW),
    "siblings merged": (lambda: MergedSiblings(2, 3), judged_by_the_whole_q, 3 * FEW),
    "siblings out of order": (lambda: SortedSiblings(2, 2), exact, FEW),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_rule_is_caught(name: str) -> None:
    assert p_value(drawn(*MUTANTS[name]), LAW) < 1e-6


@pytest.mark.slow
def test_a_missing_residual_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a rejection the token is drawn from p itself, which favours what the draft likes too."""
    monkeypatch.setattr(acceptance, "residual_of", lambda p, q: p)
    assert p_value(drawn(lambda: TableDrafter(3), draws=FEW), LAW) < 1e-6


def test_the_law_sums_to_one_and_leaves_tokens_out() -> None:
    assert sum(LAW.values()) == pytest.approx(1, abs=1e-6)
    assert any(p == 0 for p in LAW.values()), "top-k must matter"


def test_a_text_that_cannot_be_fails_the_test_at_once() -> None:
    impossible = next(text for text, p in LAW.items() if p == 0)
    assert p_value(Counter({impossible: 1}), LAW) == 0.0
