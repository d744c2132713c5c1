"""Typical acceptance against the published rule, written down again in numpy over padded rows of paths."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from playground.decoding.acceptance import TargetView, Typical, Verdict, exact
from playground.decoding.drafting import Context, Proposal
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.trace import Node, Status
from playground.decoding.tree import EMPTY_TREE, TokenTree
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.base import StatelessDrafter
from playground.drafters.prompt_lookup import PromptLookup
from playground.errors import UserError
from tests import published_medusa as published

VOCAB = 7
TEXT = [1, 2, 3]


@st.composite
def token_trees(draw) -> list[tuple[int, ...]]:
    """Every path of a random tree of tokens, up to four deep, by length and then by value."""
    paths: set[tuple[int, ...]] = {()}
    for _ in range(draw(st.integers(1, 12))):
        parent = draw(st.sampled_from(sorted(paths)))
        if len(parent) < 4:
            paths.add((*parent, draw(st.integers(0, VOCAB - 1))))
    return sorted(paths - {()}, key=lambda path: (len(path), path)) or [(0,)]


def judged(paths, logits: torch.Tensor, sampling: Sampling, rule) -> Verdict:
    tree = TokenTree.from_paths(paths)
    nodes = [
        Node(parent, token, Status.NEVER_REACHED) for parent, token in zip(tree.shape.parents, tree.tokens, strict=True)
    ]
    return rule(TargetView(logits, tree, TEXT, sampling), nodes, None)


def random_logits(seed: int, rows: int, sharpness: float) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * sharpness


def by_the_book(paths, logits: torch.Tensor, temperature: float, epsilon: float, alpha: float) -> tuple[list[int], int]:
    """The accepted path, as our node numbers, and the argmax after it. Gives up where rounding would decide."""
    tree = published.buffers(paths)
    scaled = logits.double().numpy() / temperature
    probs = np.exp(scaled - scaled.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    pads = tree.retrieve < 0
    tokens = np.array([0, *(path[-1] for path in paths)])
    candidates = np.where(pads, 0, tokens[tree.retrieve])
    rows = probs[tree.retrieve]
    right = published.right_if_typical(rows, candidates, epsilon, alpha) & ~pads[:, 1:]
    for nudge in (1 - 1e-4, 1 + 1e-4):
        nudged = published.right_if_typical(rows, candidates, epsilon * nudge, alpha * nudge) & ~pads[:, 1:]
        assume(np.array_equal(nudged, right))
    score = np.log(np.take_along_axis(rows[:, :-1], candidates[:, 1:, None], -1)[..., 0])
    row, accepted = published.longest(right, score)
    lengths = np.cumprod(right, axis=1).sum(1)
    best = score[row, :accepted].sum()
    for other in np.flatnonzero(lengths == accepted):
        same = np.array_equal(tree.retrieve[other, : accepted + 1], tree.retrieve[row, : accepted + 1])
        assume(same or best - score[other, :accepted].sum() > 1e-4)
    path = [int(node) - 1 for node in tree.retrieve[row, 1 : accepted + 1]]
    return path, int(rows[row, accepted].argmax())


@settings(max_examples=300, deadline=None)
@given(
    token_trees(),
    st.integers(0, 10**6),
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.sampled_from([0.3, 0.7, 1.0, 1.5]),
    st.sampled_from([0.02, 0.09, 0.3, 0.9]),
    st.sampled_from([0.05, 0.3, 0.9]),
)
def test_the_verdict_is_the_published_one(paths, seed, sharpness, temperature, epsilon, alpha):
    logits = random_logits(seed, 1 + len(paths), sharpness)
    path, final = by_the_book(paths, logits, temperature, epsilon, alpha)
    verdict = judged(paths, logits, Sampling(temperature, seed=seed), Typical(epsilon, alpha))
    assert verdict.path == path
    assert verdict.final == final
    assert [at for at, node in enumerate(verdict.nodes) if node.status is Status.ACCEPTED] == path


@settings(max_examples=150, deadline=None)
@given(token_trees(), st.integers(0, 10**6), st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.05, 1.0))
def test_a_lower_threshold_accepts_at_least_as_much(paths, seed, epsilon, alpha, factor):
    logits = random_logits(seed, 1 + len(paths), 2.0)
    sampling = Sampling(1.0)
    usual = judged(paths, logits, sampling, Typical(epsilon, alpha))
    for looser in (Typical(epsilon * factor, alpha), Typical(epsilon, alpha * factor), Typical(1e-9, 1e-9)):
        assert len(judged(paths, logits, sampling, looser).path) >= len(usual.path)


@settings(max_examples=100, deadline=None)
@given(token_trees(), st.integers(0, 10**6))
def test_every_node_has_the_fate_that_its_numbers_say(paths, seed):
    logits = random_logits(seed, 1 + len(paths), 2.0)
    verdict = judged(paths, logits, Sampling(0.8), Typical(0.09, 0.3))
    nodes = verdict.nodes
    passed = {-1}
    for at, node in enumerate(nodes):
        if node.parent not in passed:
            assert (node.status, node.p, node.reason) == (Status.NEVER_REACHED, None, "")
            continue
        p = (logits[node.parent + 1] / 0.8).softmax(-1)
        threshold = min(0.09, 0.3 * math.exp(float((p * (p + 1e-5).log()).sum())))
        assert node.p == pytest.approx(float(p[node.token]))
        assert node.threshold == pytest.approx(threshold)
        if node.p > node.threshold:
            passed.add(at)
            assert node.status is (Status.ACCEPTED if at in verdict.path else Status.REJECTED)
            assert ("shorter or less probable" in node.reason) == (at not in verdict.path)
        else:
            assert node.status is Status.REJECTED
            assert node.reason.startswith("p ≤")


@settings(max_examples=60, deadline=None)
@given(token_trees(), st.integers(0, 10**6))
def test_without_temperature_it_is_the_greedy_rule(paths, seed):
    logits = random_logits(seed, 1 + len(paths), 2.0)
    greedy, typical = (judged(paths, logits, Sampling(), rule) for rule in (exact, Typical()))
    assert (typical.path, typical.final, typical.nodes) == (greedy.path, greedy.final, greedy.nodes)


def test_the_longest_path_wins_and_probability_breaks_ties():
    flat = torch.zeros(VOCAB)
    peak = torch.tensor([2.0, 1.0, 0.5, 0, 0, 0, 0])
    one = torch.tensor([9.0, 0, 0, 0, 0, 0, 0])
    # [0] is the most probable, but after it nothing else passes; [1] and [2] are followed by what is typical.
    paths = [(0,), (1,), (2,), (0, 3), (1, 4), (2, 4)]
    logits = torch.stack([peak, one, flat, flat, flat, flat, flat])
    verdict = judged(paths, logits, Sampling(1.0), Typical(0.05, 0.3))
    assert [paths[node] for node in verdict.path] == [(1,), (1, 4)]
    assert verdict.status is Status.BONUS


def test_it_needs_no_chance():
    logits = random_logits(1, 1, 1.0)
    assert judged([], logits, Sampling(1.0, seed=1), Typical()).status is Status.PLAIN
    for seed in range(5):
        view = TargetView(logits, EMPTY_TREE, TEXT, Sampling(1.0, seed=seed))
        assert Typical()(view, [], None).final == int(logits.argmax())


class Wishes(StatelessDrafter):
    """Proposes the same small tree again and again."""

    def propose(self, context: Context) -> Proposal:
        return Proposal(TokenTree.from_paths([(0, 1, 2), (3, 4), (5,), (1, 0)]))


def test_it_is_lossy_under_sampling_and_lossless_without():
    target = TableTarget.random(6, 1, seed=2, sharpness=1.0)
    for sampling in (Sampling(), Sampling(1.0, seed=1), Sampling(1.0, seed=2)):
        outputs = {}
        for name, drafter in {"plain": Autoregressive(), "wishes": Wishes(), "lookup": PromptLookup(3, 2)}.items():
            rule = {} if name == "plain" else {"rule": Typical()}
            session = Session(Executor(target), drafter, TEXT, sampling, max_new_tokens=30, **rule)
            for step in decode([session]):
                assert step.accepted == len(step.emitted) - 1 or step.finish
            outputs[name] = session.output
        equal = outputs["wishes"] == outputs["plain"]
        assert equal == sampling.greedy
        assert (outputs["lookup"] == outputs["plain"]) or not sampling.greedy


@pytest.mark.parametrize(
    ("epsilon", "alpha", "name"),
    [(0.0, 0.3, "posterior_threshold is 0.0"), (1.5, 0.3, "posterior_threshold"), (0.1, -1, "posterior_alpha is -1")],
)
def test_thresholds_out_of_range_are_refused_in_a_sentence(epsilon, alpha, name):
    with pytest.raises(UserError, match=name):
        Typical(epsilon, alpha)
