"""Which Medusa tree to use: greedy search over measured accuracies (Cai et al. 2024, section 2.3.3).

A node is worth the chance that the whole path to it is right, and a tree is worth the sum over its nodes. The paper
takes heads as independent and multiplies their accuracies (`by_accuracy`). But heads are right together: where the
text is easy, all of them are. Counting how often whole paths were right (`by_paths`) needs no such assumption.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from playground.errors import UserError
from playground.models.medusa_trees import OwnTree

Accuracy = Sequence[Sequence[float]]
Path = tuple[int, ...]
Chances = Callable[[Path], Sequence[float]]
"""For a path of ranks: the chance, by rank, that it is right with one more guess of the next head at its end."""


MOST_GROWN = 64  # nodes that are looked for, whatever the tree's own number


@dataclass(frozen=True)
class FoundTree:
    """A tree as it goes with the heads, and the tokens that a pass with it emits on average.

    `own` has the tree's nodes first, in the order they were added, then those that follow as long as they are worth
    anything, so that other numbers of nodes may be asked for later.
    """

    own: OwnTree
    tokens_per_pass: float

    @property
    def paths(self) -> list[Path]:
        """The tree's own nodes."""
        return [tuple(path) for path in self.own.best()]


def by_accuracy(accuracy: Accuracy) -> Chances:
    """Heads as if independent: `accuracy[d][r]` is the share of positions where guess number r of head d is right."""

    def chances(path: Path) -> Sequence[float]:
        value = 1.0
        for head, rank in zip(accuracy, path, strict=False):
            value *= head[rank]
        return [value * share for share in accuracy[len(path)]] if len(path) < len(accuracy) else ()

    return chances


def by_paths(right: Sequence[Path], ranks: int) -> Chances:
    """Heads as they were: `right` has, for every measured position, the rank of the right guess of each head in turn,
    at least `ranks` where none of the first `ranks` was right."""
    counts = Counter(path[:depth] for path in right for depth in range(1, len(path) + 1))
    depth = max(map(len, right), default=0)

    def chances(path: Path) -> Sequence[float]:
        return [counts[*path, rank] / len(right) for rank in range(ranks)] if len(path) < depth else ()

    return chances


def where_steps_begin(right: Sequence[Path], tree: Collection[Path]) -> list[Path]:
    """Of `right`, in the text's order, the positions from which steps with `tree` set out.

    A step passes over what was accepted, so the next one begins where a guess was wrong: in harder text than there is
    on average. A tree that is searched over all positions is too deep, and promises too much.
    """
    nodes, begun, at = set(tree), list[Path](), 0
    while at < len(right):
        begun.append(right[at])
        at += 1 + sum(right[at][:depth] in nodes for depth in range(1, len(right[at]) + 1))
    return begun


def nodes_by_value(chances: Chances) -> Iterator[tuple[Path, float]]:
    """All nodes and their values, best first; parents come before children.

    A node is worth no more than its parent and than the better ranks beside it. So the first n are the best tree of n
    nodes, for every n, and only the best child and the next sibling of what was taken need to be looked at.
    """
    frontier: list[tuple[float, int, Path, list[tuple[float, int]]]] = []

    def offer(above: Path, siblings: list[tuple[float, int]]) -> None:
        if siblings:
            negative, rank = siblings[0]
            heapq.heappush(frontier, (negative, len(above), (*above, rank), siblings[1:]))

    def ranked(path: Path) -> list[tuple[float, int]]:
        return sorted((-value, rank) for rank, value in enumerate(chances(path)))

    offer((), ranked(()))
    while frontier:
        negative, _, path, siblings = heapq.heappop(frontier)
        yield path, -negative
        offer(path, ranked(path))
        offer(path[:-1], siblings)


def search_tree(chances: Chances, nodes: int) -> FoundTree:
    """The tree of `nodes` nodes with the highest expected number of tokens per pass."""
    if nodes < 1:
        raise UserError(f"A tree of {nodes} nodes was asked for; it needs at least one.")
    return _first(list(islice(nodes_by_value(chances), max(nodes, MOST_GROWN))), nodes)


def fastest_tree(chances: Chances, seconds: Callable[[int], float], most_nodes: int = MOST_GROWN - 1) -> FoundTree:
    """The tree with the most expected tokens per second, where `seconds(n)` is the time of a step whose pass reads n
    tokens: the tree and the last committed token. No nodes at all is not considered.
    """
    found = list(islice(nodes_by_value(chances), max(most_nodes, MOST_GROWN)))
    tokens = [1.0 + value for value in accumulate(value for _, value in found[:most_nodes])]
    best = max(range(len(tokens)), key=lambda at: tokens[at] / seconds(at + 2))
    return _first(found, best + 1)


def _first(found: Sequence[tuple[Path, float]], nodes: int) -> FoundTree:
    """The tree of the first `nodes` of the nodes and values that were found."""
    tokens = 1.0 + sum(value for _, value in found[:nodes])
    grown = [list(path) for at, (path, value) in enumerate(found) if at < nodes or value > 0]
    return FoundTree(OwnTree(grown, min(nodes, len(grown))), tokens)
