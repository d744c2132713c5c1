"""The token tree against definitions that are too slow to use."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from playground.decoding.tree import EMPTY_TREE, TokenTree, TreeShape, chain_shape


@st.composite
def shapes(draw: st.DrawFn, most: int = 12) -> TreeShape:
    size = draw(st.integers(0, most))
    return TreeShape(tuple(draw(st.integers(-1, node - 1)) for node in range(size)))


@st.composite
def trees(draw: st.DrawFn) -> TokenTree:
    shape = draw(shapes())
    tokens = draw(st.lists(st.integers(0, 5), min_size=len(shape), max_size=len(shape)))
    return TokenTree(tuple(tokens), shape)


def ancestors(shape: TreeShape, node: int) -> set[int]:
    """The node itself and all above it, by climbing."""
    found = set()
    while node >= 0:
        found.add(node)
        node = shape.parents[node]
    return found


@given(shapes())
def test_mask_depths_paths_and_children_agree_with_climbing(shape: TreeShape) -> None:
    assert shape.mask.shape == (len(shape), len(shape))
    for node in range(len(shape)):
        above = ancestors(shape, node)
        assert set(shape.mask[node].nonzero().flatten().tolist()) == above
        assert shape.depths[node] == len(above)
        assert shape.path(node) == sorted(above), "parents come before children, so a path is ascending"
    for node, kids in shape.children.items():
        assert all(shape.parents[kid] == node for kid in kids)
        assert list(kids) == sorted(kids)
    assert sorted(kid for kids in shape.children.values() for kid in kids) == list(range(len(shape)))
    assert shape.path(-1) == []


@given(shapes(), st.integers(-2, 8))
def test_cut_keeps_exactly_the_shallow_nodes(shape: TreeShape, depth: int) -> None:
    tree = TokenTree(tuple(range(100, 100 + len(shape))), shape)
    cut, kept = tree.cut(depth)
    assert kept == tuple(node for node in range(len(shape)) if shape.depths[node] <= depth)
    assert cut.shape == shape.cut(depth)
    for new, old in enumerate(kept):
        assert cut.path_tokens(new) == tree.path_tokens(old)


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=8))
def test_from_paths_holds_every_prefix_once(paths: list[list[int]]) -> None:
    tree = TokenTree.from_paths(paths)
    found = [tuple(tree.path_tokens(node)) for node in range(len(tree))]
    assert len(set(found)) == len(found)
    assert set(found) == {tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)}


@given(trees())
def test_a_tree_is_the_trie_of_its_paths_unless_siblings_repeat(tree: TokenTree) -> None:
    again = TokenTree.from_paths([tree.path_tokens(node) for node in range(len(tree))])
    siblings = [[tree.tokens[kid] for kid in kids] for kids in tree.shape.children.values()]
    if all(len(set(tokens)) == len(tokens) for tokens in siblings):
        assert again == tree
    else:
        assert len(again) < len(tree)


def test_a_chain_is_the_thin_tree() -> None:
    tree = TokenTree.chain([7, 8, 9])
    assert tree == TokenTree.from_paths([[7, 8, 9]])
    assert tree.shape.depths == tuple(range(1, len(tree) + 1))
    assert torch.equal(tree.shape.mask, torch.ones(3, 3, dtype=torch.bool).tril())
    assert tree.shape is chain_shape(3), "a fixed shape is worked out once"


def test_the_empty_tree_has_nothing_but_a_root() -> None:
    assert len(EMPTY_TREE) == 0
    assert EMPTY_TREE.shape.children == {-1: ()}
    assert EMPTY_TREE.shape.mask.shape == (0, 0)
    assert EMPTY_TREE.cut(3) == (EMPTY_TREE, ())


@pytest.mark.parametrize("parents", [(0,), (-1, 1), (-1, 2, 0), (-2,), (-1, 0, 3)])
def test_children_before_parents_are_refused(parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="parents must come before children"):
        TreeShape(parents)


def test_tokens_must_match_the_shape() -> None:
    with pytest.raises(ValueError, match="2 tokens for a tree of 3 nodes"):
        TokenTree((1, 2), chain_shape(3))
