"""Medusa trees as lists of rank paths: the presets that were published, ours, and those that users write.

[0, 2] is the third guess of the second head, under the first guess of the first head.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from playground.errors import UserError

Tree = list[list[int]]
MOST_NODES = 512  # every node is a row of every pass
PRESETS = Path(__file__).parents[2] / "assets" / "medusa_trees.json"


@dataclass(frozen=True)
class OwnTree:
    """The tree that comes with heads, its nodes best first: the first n are the best tree of n nodes.

    `auto` is how many of them are used where no other number is asked for; None for all.
    """

    paths: Tree
    auto: int | None = None

    def best(self, nodes: int | None = None) -> Tree:
        """The best tree of `nodes` nodes, or of as many as there are; None for the number that came with the heads."""
        return self.paths[: self.auto if nodes is None else nodes]


def presets() -> dict[str, Tree]:
    """Preset trees by name."""
    trees: dict[str, Tree] = json.loads(PRESETS.read_text(encoding="utf-8"))
    return trees


def load_tree(spec: str) -> Tree:
    """A preset by name, or a tree written as JSON: "mc_sim_7b_63", "[[0], [0, 0], [1]]".

    Raises UserError for an unknown name, for what is no list of rank paths, and for a path without its parent.
    """
    spec = spec.strip()
    if not spec.startswith("["):
        if spec not in presets():
            raise UserError(
                f"There is no Medusa tree called {spec!r}. Give auto or a number of nodes for the heads' own, a name "
                f"({', '.join(presets())}), or a list of rank paths such as [[0], [0, 0], [1]]."
            )
        return presets()[spec]
    try:
        tree = json.loads(spec)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The Medusa tree is no JSON list: {error}. Write it like [[0], [0, 0], [1]].") from error
    check_tree(tree)
    return [list(path) for path in tree]


def check_tree(tree: object) -> None:
    """Raises UserError unless `tree` is a non-empty list of rank paths, each with its parent in the list."""
    if not isinstance(tree, list | tuple) or not tree:
        raise UserError("The Medusa tree is empty. Give at least one node, such as [[0]].")
    if len(tree) > MOST_NODES:
        raise UserError(f"The Medusa tree has {len(tree)} nodes; at most {MOST_NODES} are read. Leave some out.")
    for path in tree:
        if not (isinstance(path, list | tuple) and path and all(type(rank) is int and rank >= 0 for rank in path)):
            raise UserError(f"The Medusa tree holds {path!r}; a node is a list of ranks from 0, such as [0, 2].")
    nodes = {tuple(path) for path in tree}
    for path in sorted(nodes):
        if len(path) > 1 and path[:-1] not in nodes:
            raise UserError(f"The Medusa tree holds {list(path)} but not its parent {list(path[:-1])}: add that one.")


def preset_for(base: str | None) -> str:
    """The published tree that its authors choose for heads of this base model: the general one unless they say more."""
    name = (base or "").lower()
    if "zephyr" in name:
        return "zephyr_stage2"
    if "vicuna" in name:
        return next((f"vicuna_{size}_stage2" for size in ("7b", "13b", "33b") if size in name), "mc_sim_7b_63")
    return "mc_sim_7b_63"
