"""Each acceptance rule against its definition: exactly where a step's law can be summed up, by walking elsewhere."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from playground.decoding.acceptance import TargetView, Verdict, exact, full_detail, match, residual_of, speculative
from playground.decoding.sampling import Purpose, Sampling, draw, uniform
from playground.decoding.trace import FATES, Node, Status
from playground.decoding.tree import TokenTree, TreeShape
from tests.decoding.test_tree import trees

V = 6
SAMPLED = Sampling(temperature=1.0, seed=5)
NEVER, ACCEPTED, REJECTED = Status.NEVER_REACHED, Status.ACCEPTED, Status.REJECTED


def view_of(logits: Tensor, tree: TokenTree, sampling: Sampling = SAMPLED) -> TargetView:
    return TargetView(logits, tree, [0, 1], sampling)


def proposed(tree: TokenTree) -> list[Node]:
    return [Node(parent, token, NEVER) for parent, token in zip(tree.shape.parents, tree.tokens, strict=True)]


def says(*tokens: int) -> Tensor:
    """Logits of which row i has its maximum at tokens[i]."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), V).float() * 3


class Fixed(TargetView):
    """A view whose acceptance draws are all the same number."""

    fixed = 0.0

    def u(self, node: int, purpose: Purpose, index: int = 0) -> float:
        return self.fixed if purpose is Purpose.ACCEPT else super().u(node, purpose, index)


# --- greedy and draw-and-match


@pytest.mark.parametrize("right", range(5))
def test_greedy_accepts_a_chain_up_to_the_first_mistake(right: int) -> None:
    truth = [3, 1, 4, 1, 5]
    guess = [token if at < right else (token + 1) % V for at, token in enumerate(truth[:4])]
    tree = TokenTree.chain(guess)
    verdict = exact(view_of(says(*truth), tree, Sampling()), proposed(tree), None)
    assert verdict.path == list(range(right))
    assert verdict.final == truth[right]
    assert verdict.status is (Status.BONUS if right == 4 else Status.CORRECTED)
    assert [node.status for node in verdict.nodes] == ([ACCEPTED] * right + [REJECTED] + [NEVER] * 4)[:4]


def test_greedy_follows_a_later_branch_and_tells_the_others_apart() -> None:
    #        0:2   1:3   2:4(of 0)  3:5(of 1)  4:1(of 1)  5:0(of 4)  6:2(of 5)
    tree = TokenTree((2, 3, 4, 5, 1, 0, 2), TreeShape((-1, -1, 0, 1, 1, 4, 5)))
    verdict = exact(view_of(says(3, 0, 1, 0, 0, 0, 5, 0), tree, Sampling()), proposed(tree), None)
    assert verdict.path == [1, 4, 5]
    assert (verdict.final, verdict.status) == (5, Status.CORRECTED)
    fates = [REJECTED, ACCEPTED, NEVER, REJECTED, ACCEPTED, ACCEPTED, REJECTED]
    assert [node.status for node in verdict.nodes] == fates
    assert verdict.visited == [-1, 1, 4, 5]


def test_nothing_proposed_gives_a_plain_token() -> None:
    tree = TokenTree.chain([])
    verdict = exact(view_of(says(4), tree, Sampling()), [], None)
    assert (verdict.path, verdict.final, verdict.status, verdict.nodes) == ([], 4, Status.PLAIN, [])


def test_greedy_with_a_q_shows_it_and_does_not_use_it() -> None:
    tree = TokenTree.chain([2])
    q = [torch.tensor([0.0, 0.0, 1e-6, 1.0, 0.0, 0.0])]
    verdict = exact(view_of(says(2, 1), tree, Sampling()), proposed(tree), q)
    assert verdict.path == [0]
    assert verdict.nodes[0].q == pytest.approx(1e-6)
    assert verdict.nodes[0].u is None


@settings(max_examples=200)
@given(trees(), st.integers(0, 10**6), st.booleans())
def test_match_emits_the_target_s_own_tokens_whatever_is_proposed(tree: TokenTree, seed: int, greedy: bool) -> None:
    logits = torch.randn(len(tree) + 1, V, generator=torch.Generator().manual_seed(seed))
    sampling = Sampling(0.0 if greedy else 1.0, seed=seed)
    view = view_of(logits, tree, sampling)
    verdict = match(view, proposed(tree))
    at = -1
    for node in [*verdict.path, None]:
        p = logits[at + 1].softmax(-1)
        u = uniform(seed, 2 + (tree.shape.depths[at] if at >= 0 else 0), Purpose.TARGET)
        own = int(logits[at + 1].argmax()) if greedy else draw(p, u)
        if node is None:
            assert verdict.final == own
            assert own not in [tree.tokens[child] for child in tree.shape.children[at]], "it stopped too early"
        else:
            assert tree.tokens[node] == own
            assert tree.shape.parents[node] == at
            at = node
    check_partition(view, verdict)


def check_partition(view: TargetView, verdict: Verdict) -> None:
    """Accepted nodes are the path; judged siblings are rejected; what hangs below a rejected node was never reached."""
    shape = view.tree.shape
    assert verdict.visited == [-1, *verdict.path]
    for at, node in enumerate(verdict.nodes):
        assert node.status in FATES
        assert (node.status is ACCEPTED) == (at in verdict.path)
        if node.status is REJECTED:
            assert shape.parents[at] in verdict.visited
            assert node.reason
        if shape.parents[at] not in verdict.visited:
            assert node.status is NEVER
            assert node.p is None
        else:
            assert node.p is not None
    end = verdict.path[-1] if verdict.path else -1
    expected = Status.CORRECTED if shape.children[end] else Status.BONUS
    assert verdict.status is (expected if verdict.nodes else Status.PLAIN)


def test_match_shows_the_target_s_probability_of_every_judged_node() -> None:
    tree = TokenTree((2, 3, 1), TreeShape((-1, -1, 1)))
    logits = torch.randn(4, V, generator=torch.Generator().manual_seed(1))
    logits[0, 3] = 100.0
    nodes = match(view_of(logits, tree), proposed(tree)).nodes
    p = logits.softmax(-1)
    assert [node.p for node in nodes] == pytest.approx([float(p[0, 2]), float(p[0, 3]), float(p[2, 1])])


# --- speculative sampling


def laws(n: int) -> st.SearchStrategy[Tensor]:
    """Distributions over n tokens, some of them without probability."""
    weights = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0]), min_size=n, max_size=n).filter(any)
    return weights.map(lambda found: torch.tensor(found) / sum(found))


def step_law(p: Tensor, q: Tensor, siblings: int) -> Tensor:
    """The exact law of the first token emitted, summed over all drafts of `siblings` tokens without replacement."""
    law = torch.zeros(V, dtype=torch.float64)
    for drafted in itertools.permutations(range(V), siblings):
        chance, left = 1.0, 1.0
        for token in drafted:
            chance *= float(q[token]) / left if left > 1e-9 else 0.0
            left -= float(q[token])
        if chance <= 1e-12:
            continue
        # Read off the thresholds: with u just below one every child with a threshold below one is rejected.
        tree = TokenTree(drafted, TreeShape((-1,) * siblings))
        view = Fixed(torch.cat([p.log().unsqueeze(0), torch.zeros(siblings, V)]), tree, [0, 1], SAMPLED)
        view.fixed = 1 - 1e-12
        verdict = speculative(view, proposed(tree), [q] * siblings)
        for node in verdict.nodes:
            if node.threshold is not None:
                law[node.token] += chance * node.threshold
                chance *= 1 - node.threshold
        if not verdict.path:
            assert verdict.residual is not None
            law += chance * verdict.residual
    return law


@settings(max_examples=60)
@given(laws(V), laws(V), st.integers(1, 3))
def test_a_speculative_step_has_exactly_the_target_s_law(p: Tensor, q: Tensor, siblings: int) -> None:
    assume(int((q > 0).sum()) >= siblings)
    assert torch.allclose(step_law(p, q, siblings), p.double(), atol=1e-5)


@pytest.mark.parametrize("siblings", [1, 2, 3])
def test_a_draft_that_knows_the_target_is_always_accepted(siblings: int) -> None:
    p = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.15, 0.05])
    for drafted in itertools.permutations(range(V), siblings):
        tree = TokenTree(drafted, TreeShape((-1,) * siblings))
        view = Fixed(torch.cat([p.log().unsqueeze(0), torch.zeros(siblings, V)]), tree, [0, 1], SAMPLED)
        view.fixed = 1 - 1e-5
        verdict = speculative(view, proposed(tree), [p] * siblings)
        assert verdict.path == [0]
        assert [node.status for node in verdict.nodes] == [ACCEPTED] + [NEVER] * (siblings - 1)


def test_siblings_are_judged_in_turn_by_what_is_left_of_q() -> None:
    p, q = torch.tensor([0.1, 0.0, 0.0, 0.2, 0.3, 0.4]), torch.tensor([0.5, 0.3, 0.2, 0.0, 0.0, 0.0])
    tree = TokenTree((0, 1), TreeShape((-1, -1)))
    view = Fixed(torch.cat([p.log().unsqueeze(0), torch.zeros(2, V)]), tree, [0, 1], SAMPLED)
    view.fixed = 0.9
    verdict = speculative(view, proposed(tree), [q, q])
    first, second = verdict.nodes
    assert (first.p, first.q, first.threshold) == pytest.approx((0.1, 0.5, 0.2))
    assert (second.p, second.q, second.threshold) == pytest.approx((0.0, 0.6, 0.0))
    assert verdict.residual is not None
    assert verdict.residual.tolist() == pytest.approx([0, 0, 0, 2 / 9, 3 / 9, 4 / 9])
    assert verdict.final in (3, 4, 5)
    assert verdict.status is Status.CORRECTED


def test_speculation_uses_each_random_number_once() -> None:
    """Along a chain and among siblings every comparison and the final draw have a number of their own."""
    used: list[tuple[int, Purpose, int]] = []

    class Watched(TargetView):
        def u(self, node: int, purpose: Purpose, index: int = 0) -> float:
            used.append((self.position + self.depth(node), purpose, index))
            return super().u(node, purpose, index)

    tree = TokenTree((0, 1, 2, 3, 4), TreeShape((-1, -1, 0, 0, 2)))
    q = torch.full((V,), 1 / V)
    for seed in range(50):
        used.clear()
        logits = torch.randn(6, V, generator=torch.Generator().manual_seed(seed))
        sampling = Sampling(1.0, seed=seed)
        verdict = speculative(Watched(logits, tree, [0, 1], sampling), proposed(tree), [q] * 5)
        assert len(set(used)) == len(used)
        assert verdict.final is not None


@given(trees(), st.integers(0, 10**6))
def test_speculation_partitions_the_nodes(tree: TokenTree, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(tree) + 1, V, generator=generator)
    q = [torch.randn(V, generator=generator).softmax(-1) for _ in range(len(tree))]
    view = view_of(logits, tree, Sampling(1.0, seed=seed))
    verdict = speculative(view, proposed(tree), q)
    assert 0 <= verdict.final < V
    assert verdict.visited == [-1, *verdict.path]
    for at, node in enumerate(verdict.nodes):
        assert (node.status is ACCEPTED) == (at in verdict.path)
        if node.status in (ACCEPTED, REJECTED):
            assert node.u is not None
            assert node.threshold is not None
            assert (node.u < node.threshold) == (node.status is ACCEPTED)
        assert node.threshold is None or 0 <= node.threshold <= 1
        assert all(value is None or math.isfinite(value) for value in (node.p, node.q, node.u))


# --- the residual


@given(laws(V), laws(V))
def test_the_residual_is_what_p_has_more_than_q(p: Tensor, q: Tensor) -> None:
    rest = residual_of(p, q)
    assert float(rest.sum()) == pytest.approx(1, abs=1e-5)
    assert torch.isfinite(rest).all()
    if not torch.allclose(p, q):
        expected = (p.double() - q.double()).clamp_min(0)
        assert torch.allclose(rest.double(), expected / expected.sum(), atol=1e-4)


def test_the_residual_of_equals_is_p_and_not_a_division_by_zero() -> None:
    p = torch.tensor([0.3, 0.7])
    assert torch.equal(residual_of(p, p.clone()), p)


# --- full detail


def test_full_detail_lists_the_most_probable_and_the_mass_left_over() -> None:
    wide = 20
    logits = torch.randn(2, wide, generator=torch.Generator().manual_seed(3))
    q = torch.randn(wide, generator=torch.Generator().manual_seed(4)).softmax(-1)
    tree = TokenTree.chain([int(q.argmax())])
    for seed in range(30):
        view = TargetView(logits, tree, [0], Sampling(1.0, seed=seed))
        verdict = speculative(view, proposed(tree), [q])
        detail = full_detail(view, verdict, [q])
        assert [entry.node for entry in detail] == verdict.visited
        p = logits[0].softmax(-1)
        emitted = tree.tokens[0] if verdict.path else verdict.final
        for law, pairs, left in ((p, detail[0].p, detail[0].p_rest), (q, detail[0].q, detail[0].q_rest)):
            top = law.argsort(descending=True)[:8].tolist()
            expected = top if emitted in top else [*top, emitted]
            assert [token for token, _ in pairs] == expected
            assert [value for _, value in pairs] == pytest.approx(law[expected].tolist(), abs=1e-6)
            assert left == pytest.approx(1 - float(law[expected].sum()), abs=1e-5)
        rejected = not verdict.path
        assert bool(detail[0].residual) == rejected
        if rejected:
            rest = (p - q).clamp_min(0) / (p - q).clamp_min(0).sum()
            assert [value for _, value in detail[0].residual[:8]] == pytest.approx(
                rest.topk(8).values.tolist(), abs=1e-5
            )
            assert verdict.final in dict(detail[0].residual)


def test_full_detail_leaves_out_tokens_without_probability() -> None:
    logits = torch.tensor([[0.0, 1.0, -math.inf, 2.0]])
    tree = TokenTree.chain([])
    view = TargetView(logits, tree, [0], Sampling(1.0))
    (entry,) = full_detail(view, match(view, []), None)
    assert [token for token, _ in entry.p] == [3, 1, 0]
    assert entry.p_rest == pytest.approx(0, abs=1e-6)
