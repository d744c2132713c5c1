"""Tree search against brute force: no other tree of that size is worth more."""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.errors import UserError
from playground.models.medusa_trees import OwnTree
from playground.training.tree_search import (
    by_accuracy,
    by_paths,
    fastest_tree,
    nodes_by_value,
    search_tree,
    where_steps_begin,
)

# Rounded, so that ties occur; rows as measured, that is, not always falling with rank.
HEADS = st.lists(st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=3, max_size=3), min_size=1, max_size=3)


def best_by_brute_force(accuracy: list[list[float]], nodes: int) -> float:
    """Highest sum of node values over all trees of `nodes` nodes with parents included."""

    @cache
    def below(depth: int, budget: int) -> float:
        """Best worth of `budget` nodes below a node at `depth` that is right for sure."""
        return children(depth, 0, budget)

    @cache
    def children(depth: int, rank: int, budget: int) -> float:
        if budget == 0:
            return 0.0
        if depth == len(accuracy) or rank == len(accuracy[depth]):
            return float("-inf")
        skip = children(depth, rank + 1, budget)
        take = [
            accuracy[depth][rank] * (1 + below(depth + 1, own)) + children(depth, rank + 1, budget - 1 - own)
            for own in range(budget)
        ]
        return max(skip, *take)

    return below(0, nodes)


@given(HEADS, st.integers(1, 9))
def test_no_tree_of_the_size_is_worth_more(accuracy: list[list[float]], nodes: int) -> None:
    all_nodes = sum(3**depth for depth in range(1, len(accuracy) + 1))
    nodes = min(nodes, all_nodes)
    found = search_tree(by_accuracy(accuracy), nodes)
    assert len(found.paths) == nodes
    assert found.tokens_per_pass == pytest.approx(1 + best_by_brute_force(accuracy, nodes))


@given(HEADS)
def test_every_prefix_is_a_tree(accuracy: list[list[float]]) -> None:
    seen: set[tuple[int, ...]] = {()}
    values = []
    for path, value in nodes_by_value(by_accuracy(accuracy)):
        assert path[:-1] in seen
        assert path not in seen
        seen.add(path)
        values.append(value)
    assert values == sorted(values, reverse=True)
    assert len(values) == sum(3**depth for depth in range(1, len(accuracy) + 1))


def test_a_known_tree() -> None:
    found = search_tree(by_accuracy([[0.6, 0.2], [0.5, 0.1]]), 3)
    assert found.paths == [(0,), (0, 0), (1,)]
    assert found.tokens_per_pass == pytest.approx(1 + 0.6 + 0.3 + 0.2)


PATHS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(PATHS, st.integers(1, 12))
def test_counted_paths_give_what_the_tree_would_have_emitted(right: list[tuple[int, int]], nodes: int) -> None:
    found = search_tree(by_paths(right, ranks=3), nodes)
    tree = set(found.paths)
    emitted = [1 + sum(path[:depth] in tree for depth in (1, 2)) for path in right]
    assert all(path[:-1] in tree or len(path) == 1 for path in tree)
    assert found.tokens_per_pass == pytest.approx(sum(emitted) / len(emitted))


@given(PATHS, st.integers(1, 12))
def test_a_step_begins_behind_what_the_step_before_it_emitted(right: list[tuple[int, int]], nodes: int) -> None:
    tree = search_tree(by_paths(right, ranks=3), nodes).paths
    begun = where_steps_begin(right, tree)
    emitted = [1 + sum(path[:depth] in tree for depth in (1, 2)) for path in begun]
    assert begun == [right[at] for at in accumulate(emitted[:-1], initial=0)]
    assert sum(emitted) >= len(right)
    assert where_steps_begin(right, []) == right


def test_what_is_easy_is_passed_over_and_makes_the_tree_no_deeper() -> None:
    right = [(0, 0)] * 60 + [(1, 3), (2, 3)] * 20
    tree = search_tree(by_paths(right, ranks=3), 2).paths
    assert tree == [(0,), (0, 0)]
    assert search_tree(by_paths(where_steps_begin(right, tree), ranks=3), 2).paths == [(0,), (1,)]


def test_heads_that_are_right_together_make_the_tree_deeper() -> None:
    right = [(0, 0)] * 50 + [(1, 3)] * 30 + [(3, 3)] * 20  # the second head is right only where the first is
    assert search_tree(by_paths(right, ranks=3), 2).paths == [(0,), (0, 0)]
    accuracy = [[0.5, 0.3, 0.0], [0.5, 0.0, 0.0]]
    assert search_tree(by_accuracy(accuracy), 2).paths == [(0,), (1,)]


def test_a_tree_needs_a_node() -> None:
    with pytest.raises(UserError, match="at least one"):
        search_tree(by_accuracy([[0.5]]), 0)


def test_the_nodes_that_follow_are_kept_as_long_as_they_are_worth_anything() -> None:
    chances = by_accuracy([[0.6, 0.2, 0.0], [0.5, 0.1, 0.0]])
    worthy = [path for path, value in nodes_by_value(chances) if value > 0]
    assert len(worthy) == 6
    for found in (search_tree(chances, 2), fastest_tree(chances, float)):
        assert found.paths == worthy[: len(found.paths)]
        assert found.own == OwnTree([list(path) for path in worthy], len(found.paths))
    assert len(search_tree(chances, 8).own.paths) == len(search_tree(chances, 8).paths) == 8, "those asked for are kept"
    wide = by_accuracy([[0.01] * 50, [0.1] * 50])
    assert len(search_tree(wide, 3).own.paths) == 64
    assert len(search_tree(wide, 70).own.paths) == 70


def test_the_fastest_tree_weighs_tokens_against_time() -> None:
    accuracy = by_accuracy([[0.6, 0.2, 0.1], [0.4, 0.2, 0.1]])
    free = fastest_tree(accuracy, lambda tokens: 1.0, most_nodes=8)
    assert len(free.paths) == 8
    dear = fastest_tree(accuracy, lambda tokens: float(tokens), most_nodes=8)
    assert dear.paths == [(0,)]
    cliff = fastest_tree(accuracy, lambda tokens: 1.0 if tokens <= 4 else 9.0, most_nodes=8)
    assert cliff.paths == search_tree(accuracy, 3).paths
    assert cliff.tokens_per_pass == pytest.approx(search_tree(accuracy, 3).tokens_per_pass)
