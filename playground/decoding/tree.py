"""The token tree: the one form in which every method proposes. A chain of draft tokens is a thin tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class TreeShape:
    """Who descends from whom, without tokens. Parents come before children; -1 is the last committed token.

    Depth, children and mask are worked out once per shape, so a fixed tree costs nothing per step.
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        for node, parent in enumerate(self.parents):
            if not -1 <= parent < node:
                raise ValueError(f"node {node} has parent {parent}; parents must come before children")

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of each node; children of the last committed token have depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Children of each node (and of -1) in order."""
        found: dict[int, list[int]] = {node: [] for node in range(-1, len(self.parents))}
        for node, parent in enumerate(self.parents):
            found[parent].append(node)
        return {node: tuple(kids) for node, kids in found.items()}

    @cached_property
    def mask(self) -> Tensor:
        """bool [n, n]: which nodes a node may see, namely its ancestors and itself."""
        size = len(self.parents)
        seen = torch.zeros(size, size + 1, dtype=torch.bool)
        # All nodes climb together; those that have arrived mark the spare column, which is its own parent.
        parents = torch.tensor([*(parent if parent >= 0 else size for parent in self.parents), size])
        at = nodes = torch.arange(size)
        for _ in range(max(self.depths, default=0)):
            seen[nodes, at] = True
            at = parents[at]
        return seen[:, :size]

    def path(self, node: int) -> list[int]:
        """Nodes from a child of the root down to `node`; empty for -1."""
        path = []
        while node >= 0:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def cut(self, depth: int) -> TreeShape:
        """The shape without nodes deeper than `depth`."""
        return _cut(self, depth)[0]


@lru_cache(maxsize=256)
def _cut(shape: TreeShape, depth: int) -> tuple[TreeShape, tuple[int, ...]]:
    kept = tuple(node for node, at in enumerate(shape.depths) if at <= depth)
    renamed = {node: new for new, node in enumerate(kept)} | {-1: -1}
    return TreeShape(tuple(renamed[shape.parents[node]] for node in kept)), kept


@lru_cache(maxsize=256)
def chain_shape(length: int) -> TreeShape:
    """The shape of a chain of `length` tokens."""
    return TreeShape(tuple(range(-1, length - 1)))


@dataclass(frozen=True)
class TokenTree:
    """Proposed tokens, one per node of a shape."""

    tokens: tuple[int, ...]
    shape: TreeShape

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.shape):
            raise ValueError(f"{len(self.tokens)} tokens for a tree of {len(self.shape)} nodes")

    @staticmethod
    def chain(ids: Iterable[int]) -> TokenTree:
        tokens = tuple(ids)
        return TokenTree(tokens, chain_shape(len(tokens)))

    @staticmethod
    def from_paths(paths: Iterable[Sequence[int]]) -> TokenTree:
        """The trie of token paths: common prefixes become one node. Only for tokens that carry no q."""
        tokens: list[int] = []
        parents: list[int] = []
        found: dict[tuple[int, int], int] = {}
        for path in paths:
            parent = -1
            for token in path:
                node = found.get((parent, token))
                if node is None:
                    node = found[parent, token] = len(tokens)
                    tokens.append(token)
                    parents.append(parent)
                parent = node
        return TokenTree(tuple(tokens), TreeShape(tuple(parents)))

    def __len__(self) -> int:
        return len(self.tokens)

    def path_tokens(self, node: int) -> list[int]:
        """Tokens from the root's child down to `node`."""
        return [self.tokens[at] for at in self.shape.path(node)]

    def cut(self, depth: int) -> tuple[TokenTree, tuple[int, ...]]:
        """The tree without nodes deeper than `depth`, and which nodes stayed."""
        shape, kept = _cut(self.shape, depth)
        return TokenTree(tuple(self.tokens[node] for node in kept), shape), kept


EMPTY_TREE = TokenTree.chain(())
