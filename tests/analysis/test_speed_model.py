"""The formulas, against sums over all outcomes."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.analysis.speed_model import (
    alpha_for,
    best_k,
    chain_speedup,
    chain_tokens,
    lookahead_tokens,
    tree_tokens,
)


@given(st.floats(0, 1), st.integers(1, 6))
def test_tokens_of_a_chain_are_the_mean_over_all_outcomes(alpha: float, k: int) -> None:
    mean = 0.0
    for accepted in product((True, False), repeat=k):
        chance = 1.0
        for one in accepted:
            chance *= alpha if one else 1 - alpha
        run = next((at for at, one in enumerate(accepted) if not one), k)
        mean += chance * (run + 1)
    assert chain_tokens(alpha, k) == pytest.approx(mean)


def test_the_best_k_is_the_best_of_all() -> None:
    def cost(tokens: int) -> float:
        return 1 + 0.1 * (tokens - 1)

    for alpha in (0.3, 0.6, 0.9):
        for draft_cost in (0.02, 0.1, 0.5):
            k = best_k(alpha, draft_cost, cost)
            best = chain_speedup(alpha, k, draft_cost, cost) if k else 1.0
            assert best >= max(chain_speedup(alpha, other, draft_cost, cost) for other in range(1, 17))
            assert best >= 1
    assert best_k(0.5, 0.6) == 0, "no gain: theorem 3.8 asks for alpha > c"


def test_lookahead_s_tokens_are_what_drawing_gives() -> None:
    alpha, ngram, guesses, every = 0.4, 4, 5, 3.0
    rng = random.Random(1)
    hits = 40_000
    total = 0
    for _ in range(hits):
        runs = []
        for _ in range(guesses):
            run = 0
            while run < ngram - 1 and rng.random() < alpha:
                run += 1
            runs.append(run)
        total += max(runs) + 1
    expected = (every - 1 + total / hits) / every
    assert lookahead_tokens(alpha, ngram, guesses, every) == pytest.approx(expected, abs=0.01)


def test_a_tree_s_tokens_are_the_best_nodes_values() -> None:
    alpha, ranks = 0.6, range(12)
    chance = [alpha * (1 - alpha) ** rank for rank in ranks]
    values = (
        list(chance)
        + [a * b for a in chance for b in chance]
        + [a * b * c for a in chance for b in chance for c in chance]
    )
    best = sorted(values, reverse=True)
    for nodes in (1, 4, 9):
        assert tree_tokens(alpha, nodes, depth=3) == pytest.approx(1 + sum(best[:nodes]))
    assert tree_tokens(1.0, 3, depth=5) == 4.0


@given(st.floats(0.01, 0.99), st.integers(1, 6))
def test_the_alpha_of_a_number_of_tokens_gives_them(alpha: float, k: int) -> None:
    assert alpha_for(chain_tokens(alpha, k), lambda one: chain_tokens(one, k)) == pytest.approx(alpha, abs=1e-6)
