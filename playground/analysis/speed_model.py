"""What speed-up to expect: tokens per pass from acceptance, divided by what a pass costs."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Cost = Callable[[float], float]
"""What a pass of the target that reads n tokens costs, in passes that read one."""


def free(tokens: float) -> float:
    """A pass costs the same whatever it reads: memory-bound decoding on a large GPU."""
    return 1.0


def chain_tokens(alpha: float, k: int) -> float:
    """Expected tokens per pass when k drafted tokens are each accepted with chance `alpha`, independently.

    (1 - alpha^(k+1)) / (1 - alpha): Leviathan et al. 2023 (arXiv:2211.17192), equation 1. The target's
    own token counts.
    """
    return float(k + 1) if alpha == 1 else (1 - alpha ** (k + 1)) / (1 - alpha)


def chain_speedup(alpha: float, k: int, draft_cost: float, cost: Cost = free) -> float:
    """Expected speed-up of a draft model: `chain_tokens` over the time of k draft passes and one pass over k+1 tokens.

    `draft_cost` is a draft pass in passes of the target. With `free` passes it is theorem 3.8 of the same paper.
    """
    return chain_tokens(alpha, k) / (k * draft_cost + cost(k + 1))


def best_k(alpha: float, draft_cost: float, cost: Cost = free, most: int = 16) -> int:
    """The k with the greatest `chain_speedup`; 0 where every k is slower than not drafting at all."""
    speedups = [1.0, *(chain_speedup(alpha, k, draft_cost, cost) for k in range(1, most + 1))]
    return speedups.index(max(speedups))


def lookahead_tokens(alpha: float, ngram: int, guesses: int, every: float) -> float:
    """Expected tokens per pass of lookahead decoding (Fu et al. 2024, arXiv:2402.02057, section 4).

    Of `guesses` n-grams checked at a time each token is right with chance `alpha`; one pass in `every` finds any.
    """
    length = ngram - 1
    found = (length + 1) - sum((1 - alpha**at) ** guesses for at in range(1, length + 1))
    return (every - 1 + found) / every


def tree_tokens(alpha: float, nodes: int, depth: int = 5) -> float:
    """Expected tokens per pass of the best Medusa tree of `nodes` nodes: 1 and the values of its nodes.

    A node is worth the chance that its whole path is right, positions taken as independent (Cai et al. 2024,
    arXiv:2401.10774, section 2.3.3). Our assumption for want of a head's own accuracies: of a position, guess number r
    is right with chance alpha (1 - alpha)^(r - 1). The speed-up is this over the time of a step ("acceleration rate"
    over "overhead" there).
    """
    frontier, tokens = [(-alpha, 1)], 1.0
    for _ in range(nodes):
        value, at = heapq.heappop(frontier)
        tokens -= value
        heapq.heappush(frontier, (value * (1 - alpha), at))
        if at < depth:
            heapq.heappush(frontier, (value * alpha, at + 1))
    return tokens


def alpha_for(tokens: float, formula: Callable[[float], float]) -> float:
    """The alpha, from 0 to 1, with which a growing `formula` gives so many tokens per pass, or comes nearest."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if formula(middle) < tokens:
            low = middle
        else:
            high = middle
    return (low + high) / 2
