"""Which Medusa tree to use: greedy search from measured head accuracies (Cai et al. 2024, section 2.3.3).

`accuracy[d][r]` is the share of positions where guess number r of head d is right. Heads are taken as independent, so
a node is right with the product of the accuracies on its path, and a tree is worth the sum over its nodes.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from playground.errors import UserError

Accuracy = Sequence[Sequence[float]]
Path = tuple[int, ...]


@dataclass(frozen=True)
class FoundTree:
    """A tree as rank paths in the order they were added, and the tokens a pass with it emits on average."""

    paths: list[Path]
    tokens_per_pass: float


def nodes_by_value(accuracy: Accuracy) -> Iterator[tuple[Path, float]]:
    """All nodes and their values, best first; parents come before children.

    A node is worth no more than its parent and than the better ranks beside it. So the first n are the best tree of n
    nodes, for every n, and only the first child and the next sibling of what was taken need to be looked at.
    """
    ranks = [sorted(range(len(head)), key=lambda r, head=head: (-head[r], r)) for head in accuracy]  # type: ignore[misc]

    def node(above: Path, value: float, place: int) -> tuple[float, Path, float, int]:
        depth = len(above)
        rank = ranks[depth][place]
        return -value * accuracy[depth][rank], (*above, rank), value, place

    frontier = [node((), 1.0, 0)] if accuracy else []
    while frontier:
        negative, path, above, place = heapq.heappop(frontier)
        yield path, -negative
        if len(path) < len(accuracy):
            heapq.heappush(frontier, node(path, -negative, 0))
        if place + 1 < len(ranks[len(path) - 1]):
            heapq.heappush(frontier, node(path[:-1], above, place + 1))


def search_tree(accuracy: Accuracy, nodes: int) -> FoundTree:
    """The tree of `nodes` nodes with the highest expected number of tokens per pass."""
    if nodes < 1:
        raise UserError(f"A tree of {nodes} nodes was asked for; it needs at least one.")
    found = list(islice(nodes_by_value(accuracy), nodes))
    return FoundTree([path for path, _ in found], 1.0 + sum(value for _, value in found))


def fastest_tree(accuracy: Accuracy, seconds: Callable[[int], float], most_nodes: int = 63) -> FoundTree:
    """The tree with the most expected tokens per second, where `seconds(n)` is the time of a pass over n tokens.

    A pass reads the tree and the last committed token. No nodes at all is not considered.
    """
    tree = search_tree(accuracy, most_nodes)
    values = [value for _, value in islice(nodes_by_value(accuracy), most_nodes)]
    best, best_speed, tokens = 0, 0.0, 1.0
    for nodes, value in enumerate(values, start=1):
        tokens += value
        if (speed := tokens / seconds(nodes + 1)) > best_speed:
            best, best_speed = nodes, speed
    return FoundTree(tree.paths[:best], 1.0 + sum(values[:best]))


def interpolated(measured: dict[int, float]) -> Callable[[int], float]:
    """A cost curve through measured points {tokens in a pass: seconds}; straight between them, flat outside."""
    points = sorted(measured.items())

    def seconds(tokens: int) -> float:
        if tokens <= points[0][0]:
            return points[0][1]
        for (left, low), (right, high) in pairwise(points):
            if tokens <= right:
                return low + (high - low) * (tokens - left) / (right - left)
        return points[-1][1]

    return seconds
