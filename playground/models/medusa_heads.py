"""Medusa heads and the files they come in.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads", section 2.1.1.
Two layouts are official. In "v1" each head ends with a vocabulary matrix of its own; in "v2" all heads share
the base model's. A state dict has the keys `i.l.linear.weight` [h, h] and `i.l.linear.bias` [h] for block l of
head i, and in v1 `i.L.weight` [V, h] for the matrix after L blocks.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from playground.errors import UserError
from playground.models.folder import ModelFolder, read_json
from playground.models.medusa_trees import OwnTree, load_tree, preset_for
from playground.models.strangers import reading

PREFIX = "medusa_head."
NAMES = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
KEY = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.(linear\.weight|linear\.bias|weight)")
LONGEST_KEY = 60  # characters of a name that a sentence shows
TREE = "medusa_tree.json"
TREE_NODES = "medusa_tree_nodes"  # in the config: how many of the tree's first nodes are used


class ResBlock(nn.Module):
    """x + SiLU(linear(x)). Starts as the identity."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, hidden_size)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + nn.functional.silu(self.linear(x))
        return out


class MedusaHeads(nn.ModuleList):
    """`num_heads` heads of `num_layers` blocks, with vocabulary matrices of their own if `vocab_size` is given.

    Its state dict is the official layout. Head i (from 0) at position t guesses the token at t + 2 + i.
    """

    def __init__(self, hidden_size: int, num_heads: int, num_layers: int = 1, vocab_size: int | None = None) -> None:
        super().__init__()
        self.hidden_size, self.num_layers, self.vocab_size = hidden_size, num_layers, vocab_size
        for _ in range(num_heads):
            blocks: list[nn.Module] = [ResBlock(hidden_size) for _ in range(num_layers)]
            own = [] if vocab_size is None else [nn.Linear(hidden_size, vocab_size, bias=False)]
            self.append(nn.Sequential(*blocks, *own))

    @property
    def num_heads(self) -> int:
        return len(self)

    @property
    def version(self) -> int:
        """1 with own vocabulary matrices, 2 with the base model's."""
        return 2 if self.vocab_size is None else 1

    def forward(self, hidden: Tensor, lm_head: Callable[[Tensor], Tensor]) -> Tensor:
        """Final hidden states [n, h] of the base model -> logits [num_heads, n, V]. `lm_head` maps [m, h] to [m, V]."""
        features = torch.stack([head(hidden) for head in self])
        if self.vocab_size is not None:
            return features
        return lm_head(features.flatten(0, 1)).view(self.num_heads, hidden.shape[0], -1)

    def start_from(self, lm_head: Tensor) -> None:
        """Copies the base model's vocabulary matrix [V, h] into each head, as training of v1 starts."""
        with torch.no_grad():
            for head in range(self.num_heads):
                self.get_parameter(f"{head}.{self.num_layers}.weight").copy_(lm_head)


@dataclass(frozen=True)
class LoadedHeads:
    """Heads from a file: `base` is the model they were trained for, `tree` the one that was found for them, if any."""

    heads: MedusaHeads
    base: str | None = None
    tree: OwnTree | None = None
    notices: list[str] = field(default_factory=list)

    @property
    def own_tree(self) -> OwnTree:
        """The tree that came with the heads, else the published one for their base model."""
        return self.tree or OwnTree(load_tree(preset_for(self.base)))


def load_heads(path: Path) -> LoadedHeads:
    """Heads from a head file (.pt or .safetensors), a folder with one, or a full checkpoint with heads inside.

    The file decides on everything; where its config says otherwise, a notice says so. Nothing is filled in and
    nothing left over: Raises UserError naming the key that is missing, unknown or of another shape, and for
    damaged files and pickles that hold more than tensors.
    """
    folder, files = _files(path)
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= _read(file)
    heads = _assemble(path, _without_base(tensors))
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    notices = [
        f"{path} says {said} {what}, but its file holds {found}; the file counts."
        for key, what, found in (
            ("medusa_num_heads", "heads", heads.num_heads),
            ("medusa_num_layers", "layers per head", heads.num_layers),
        )
        if (said := config.get(key)) not in (None, found)
    ]
    base = config.get("base_model_name_or_path")
    tree = None
    if (tree_file := folder / TREE).is_file():
        nodes = load_tree(tree_file.read_text(encoding="utf-8", errors="replace"))
        tree = OwnTree(nodes, config.get(TREE_NODES))
        if tree.auto is not None and not (type(tree.auto) is int and 1 <= tree.auto <= len(nodes)):
            notices.append(f"{path} says to use {tree.auto!r} nodes of a tree of {len(nodes)}; all are used.")
            tree = OwnTree(nodes)
    return LoadedHeads(heads, base if isinstance(base, str) else None, tree, notices)


def save_heads(
    heads: MedusaHeads,
    folder: Path,
    base: str,
    tree: OwnTree | None = None,
    pickled: bool | None = None,
) -> None:
    """Writes `heads` in the official layout of their version: config.json and medusa_lm_head.pt or .safetensors.

    `pickled` None does as the official code does, .pt for v1 and .safetensors for v2. `tree`, if given, goes
    into a file of its own beside them, and how many of its nodes to use into the config.
    """
    import transformers

    pickled = heads.version == 1 if pickled is None else pickled
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"medusa_lm_head.{'pt' if pickled else 'safetensors'}"
    unfinished = file.with_name(file.name + ".part")
    # cloned: heads that share blocks share storage, which safetensors refuses
    tensors = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in heads.state_dict().items()}
    if pickled:
        torch.save(tensors, unfinished)
    else:
        save_file(tensors, unfinished, metadata={"format": "pt"})
    os.replace(unfinished, file)
    config = {
        "base_model_name_or_path": base,
        "medusa_num_heads": heads.num_heads,
        "medusa_num_layers": heads.num_layers,
        "transformers_version": transformers.__version__,
    }
    if heads.version == 2:
        config["version"] = "2"
    if tree is not None:
        config |= save_tree(tree, folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def save_tree(tree: OwnTree, folder: Path) -> dict[str, int]:
    """Writes the nodes of `tree` to its file in `folder`; returns what the heads' config has to say of it."""
    (folder / TREE).write_text(json.dumps(tree.paths) + "\n", encoding="utf-8")
    return {TREE_NODES: len(tree.best())}


def _files(path: Path) -> tuple[Path, list[Path]]:
    """The folder around the heads, and the files that may hold them."""
    if path.is_file():
        return path.parent, [path]
    if not path.is_dir():
        raise UserError(f"There are no Medusa heads at {path}: no such file or folder.")
    for name in NAMES:
        if (path / name).is_file():
            return path, [path / name]
    try:
        return path, ModelFolder(path).weight_files
    except UserError as error:
        if files := sorted(path.glob("*.safetensors")):
            return path, files
        raise UserError(f"{path} holds no Medusa heads: expected {NAMES[1]}, or safetensors.") from error


def _read(file: Path) -> dict[str, Tensor]:
    """The tensors of `file`; of a checkpoint with Medusa heads inside, the heads alone."""
    with reading(f"{file} is damaged, or no file of Medusa heads", "Fetch it again."):
        if file.suffix == ".safetensors":
            with safe_open(file, "pt") as opened:
                return {key: opened.get_tensor(key) for key in _wanted(opened.keys())}
        # mapped where the format allows it, since a full checkpoint brings gigabytes of base model along
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    if not isinstance(content, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items()
    ):
        raise UserError(f"{file} is not a table of tensors by name, as a file of Medusa heads is.")
    return {key: content[key] for key in _wanted(content)}


def _wanted(keys: Iterable[str]) -> list[str]:
    keys = list(keys)
    return [key for key in keys if key.startswith(PREFIX)] or keys


def _without_base(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The heads' tensors under their own names; shards of a full checkpoint bring the base model's along."""
    heads = {key.removeprefix(PREFIX): tensor for key, tensor in tensors.items() if key.startswith(PREFIX)}
    return heads or tensors


def _assemble(path: Path, tensors: dict[str, Tensor]) -> MedusaHeads:
    heads = _shape_of(path, tensors)
    expected = {key: tensor.shape for key, tensor in heads.state_dict().items()}
    if missing := sorted(expected.keys() - tensors.keys()):
        raise UserError(f"The Medusa heads in {path} lack {_some(missing)}.")
    if extra := sorted(tensors.keys() - expected.keys()):
        raise UserError(f"The Medusa heads in {path} hold {_some(extra)}, which no head has a place for.")
    for key, tensor in tensors.items():
        if tensor.shape != expected[key]:
            raise UserError(f"In {path}, {key} has shape {list(tensor.shape)} and not {list(expected[key])}.")
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            kind = str(tensor.dtype if tensor.layout == torch.strided else tensor.layout).removeprefix("torch.")
            raise UserError(f"In {path}, {key} is {kind}, where a dense table of floating-point numbers belongs.")
    heads.load_state_dict(tensors, assign=True)
    return heads.eval().requires_grad_(False)


def _shape_of(path: Path, tensors: dict[str, Tensor]) -> MedusaHeads:
    """Empty heads of the shape that the keys of the first head tell."""
    unknown = sorted(key for key in tensors if not KEY.fullmatch(key))
    if unknown or not tensors:
        raise UserError(
            f"{path} holds no Medusa heads" + (f": {_some(unknown)} is no part of one." if unknown else ".")
        )
    numbers = {int(key.split(".")[0]) for key in tensors}
    if gap := sorted(set(range(len(numbers))) - numbers):
        raise UserError(f"The Medusa heads in {path} lack {_some([f'{head}.*' for head in gap])}.")
    layers = 0
    while f"0.{layers}.linear.weight" in tensors:
        layers += 1
    own = tensors.get(f"0.{layers}.weight")
    sample = own if own is not None else tensors.get("0.0.linear.weight")
    if sample is None or sample.dim() != 2:
        raise UserError(f"The Medusa heads in {path} lack the first head's matrix, 0.0.linear.weight.")
    with torch.device("meta"):
        return MedusaHeads(sample.shape[1], len(numbers), layers, None if own is None else own.shape[0])


def _some(keys: Sequence[str], most: int = 3) -> str:
    shown = [key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}…" for key in keys[:most]]
    return ", ".join(shown) + (f" and {len(keys) - most} more" if len(keys) > most else "")
