"""The rules that Medusa's authors published, written down again in numpy: an oracle for our engine.

Where ours walks a tree, the published rules lay every path from root to leaf out as a row, pad the short rows, and
compare row by row. Node 0 is the root (our last committed token), so their node n is our node n - 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

TOP = 10


@dataclass
class Buffers:
    """`tree_indices` [T] into [root, first head's top 10, second head's top 10, ...]; `retrieve` [paths, depth + 1]."""

    tree_indices: np.ndarray
    depths: np.ndarray
    mask: np.ndarray
    retrieve: np.ndarray


def buffers(choices: Sequence[Sequence[int]]) -> Buffers:
    """Published layout of a tree of rank paths."""
    paths = sorted((tuple(path) for path in choices), key=lambda path: (len(path), path))
    size = len(paths) + 1
    tree_indices = np.zeros(size, dtype=int)
    depths = np.zeros(size, dtype=int)
    mask = np.eye(size, dtype=bool)
    mask[:, 0] = True
    for node, path in enumerate(paths, 1):
        tree_indices[node] = path[-1] + TOP * (len(path) - 1) + 1
        depths[node] = len(path)
        for length in range(1, len(path)):
            mask[node, 1 + paths.index(path[:length])] = True
    rows: list[list[int]] = []
    covered: set[tuple[int, ...]] = set()
    for path in reversed(paths):
        if path not in covered:
            prefixes = [path[:length] for length in range(1, len(path) + 1)]
            covered.update(prefixes)
            rows.append([0, *(1 + paths.index(prefix) for prefix in prefixes)])
    width = max(map(len, rows))
    retrieve = np.array([row + [-1] * (width - len(row)) for row in rows])
    return Buffers(tree_indices, depths, mask, retrieve)


def right_by_argmax(logits: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """bool [paths, depth]: candidate tokens that are the argmax of the row before. logits [paths, depth + 1, V]."""
    return candidates[:, 1:] == logits[:, :-1].argmax(-1)


def right_if_typical(probs: np.ndarray, candidates: np.ndarray, epsilon: float, alpha: float) -> np.ndarray:
    """bool [paths, depth]: p(x) > min(epsilon, alpha * exp(-H)), the entropy H of the row before in nats."""
    before = probs[:, :-1]
    p = np.take_along_axis(before, candidates[:, 1:, None], -1)[..., 0]
    entropy = -(before * np.log(before + 1e-5)).sum(-1)
    return p > np.minimum(epsilon, alpha * np.exp(-entropy))


def longest(right: np.ndarray, score: np.ndarray | None = None) -> tuple[int, int]:
    """(row, accepted) of the longest run of right tokens; ties go to the highest summed score, then the first row."""
    lengths = np.cumprod(right, axis=1).sum(1)
    accepted = int(lengths.max())
    tied = np.flatnonzero(lengths == accepted)
    if score is not None and accepted:
        return int(tied[score[tied, :accepted].sum(1).argmax()]), accepted
    return int(tied[0]), accepted


def decode(
    next_logits: Callable[[Sequence[int]], np.ndarray],
    head_top: Callable[[Sequence[int]], np.ndarray],
    choices: Sequence[Sequence[int]],
    prompt: Sequence[int],
    new_tokens: int,
    mask_pads: bool = True,
) -> tuple[list[int], list[int]]:
    """Greedy ids after the prompt and the accepted length of each step, in published order.

    `next_logits` [V] after a text; `head_top` [heads, 10] ids guessed from a text's last row. The last prompt token
    takes the part of the first root. Without `mask_pads`, a pad is compared as if it were the token 0, as published,
    and what follows an accepted pad comes from the tree's last node.
    """
    tree = buffers(choices)
    pads = tree.retrieve < 0
    text, root, lengths = list(prompt[:-1]), prompt[-1], []
    while len(text) + 1 < len(prompt) + new_tokens:
        tokens = np.concatenate([[root], head_top(text).reshape(-1)])[tree.tree_indices]
        after = []
        for node in range(len(tokens)):
            seen = np.flatnonzero(tree.mask[node])
            after.append(next_logits([*text, *tokens[seen[tree.depths[seen].argsort()]]]))
        logits = np.stack(after)[tree.retrieve]
        candidates = np.where(pads, 0, tokens[tree.retrieve])
        right = right_by_argmax(logits, candidates)
        if mask_pads:
            right &= ~pads[:, 1:]
        row, accepted = longest(right)
        text += [int(token) for token in candidates[row, : accepted + 1]]
        root = int(logits[row, accepted].argmax())
        lengths.append(accepted)
    return [*text, root][len(prompt) :][:new_tokens], lengths
