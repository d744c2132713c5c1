"""A model folder brought into memory: all of it, or a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from playground.decoding.target import TransformersTarget, check_architecture
from playground.errors import UserError
from playground.models.folder import ModelFolder
from playground.models.placement import Placement
from playground.models.strangers import reading
from playground.models.text import Pieces

MOST_DECLARED = 2  # times the parameters in the files; less than that is told by the name of what is missing


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory with its tokenizer. Shared by all runs: nothing of a run is kept on it."""

    name: str
    folder: Path
    target: TransformersTarget
    tokenizer: PreTrainedTokenizerBase

    @property
    def model(self) -> PreTrainedModel:
        return self.target.model

    @property
    def context_length(self) -> int:
        return self.target.context_length

    @property
    def eos_ids(self) -> frozenset[int]:
        return self.target.eos_ids

    @cached_property
    def pieces(self) -> Pieces:
        """What each id contributes to the text."""
        return Pieces(self.tokenizer)

    @cached_property
    def tokens(self) -> dict[int, str]:
        """Every token of the tokenizer by its id."""
        return {token: text for text, token in self.tokenizer.get_vocab().items()}

    @cached_property
    def parameters(self) -> int:
        """Number of parameters, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder, quick and without the weights. Raises UserError if it cannot be read."""
    ModelFolder(folder).check()
    only_sentencepiece = (folder / "tokenizer.model").is_file() and not (folder / "tokenizer.json").is_file()
    hint = "It needs two packages: pip install sentencepiece protobuf." if only_sentencepiece else ""
    with reading(f"The tokenizer in {folder} cannot be loaded", hint):
        return cast(
            PreTrainedTokenizerBase,
            AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False),
        )


def load_model(name: str, folder: Path, placement: Placement) -> LoadedModel:
    """The model in `folder`, ready to decode: evaluation mode, no gradients, no code from the folder.

    Attention is SDPA where the architecture has it, else transformers' plain one.

    Raises UserError: weights missing, damaged or of another shape than the config says, an architecture that
    transformers does not know or that cannot read token trees, memory that ran out.
    """
    tokenizer = load_tokenizer(folder)
    with reading(f"{name} cannot be loaded from {folder}"):
        skeleton = _skeleton(folder, placement.dtype)
        _check_declared(name, skeleton, folder)
        places: dict[str, object] = {}
        if placement.spread is not None:
            places = {"device_map": spread_map(folder, placement.dtype, placement.spread)}
        elif placement.device.type != "cpu":
            places = {"device_map": {"": placement.device}}
        loaded = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=placement.dtype,
            # Always said: a config may ask for another, even for a kernel to be downloaded.
            attn_implementation="sdpa" if skeleton._supports_sdpa else "eager",
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **places,
        )
    model, report = cast("tuple[PreTrainedModel, dict[str, set[str]]]", loaded)
    # transformers fills what is missing with random numbers and only warns
    if missing := sorted(report["missing_keys"]):
        raise UserError(
            f"{name} is incomplete: {folder} lacks {', '.join(missing[:3])}"
            + (f" and {len(missing) - 3} more weights." if len(missing) > 3 else ".")
        )
    target = TransformersTarget(model.eval().requires_grad_(False), name)
    if len(tokenizer) > target.vocab_size:
        raise UserError(
            f"The tokenizer of {name} has {len(tokenizer)} tokens, but the model scores {target.vocab_size}: "
            "they do not belong together."
        )
    if placement.packed:
        target.pack()
    check_architecture(target)
    return LoadedModel(name, folder, target, tokenizer)


def spread_map(folder: Path, dtype: torch.dtype, room: dict[int | str, int]) -> dict[str, int | str]:
    """Which module of the model in `folder` goes to which device, in its order, each filled up to `room` bytes.

    Embedding and head stay on the first device: their weights are looked at from outside, and offloaded weights
    are only there while their own module runs. Raises UserError if not everything finds a place.
    """
    from accelerate import infer_auto_device_map

    model = _skeleton(folder, dtype)
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    own_head = 0 if ends[0].weight is ends[1].weight else ends[1].weight.nbytes
    first = next(iter(room))
    places: dict[str, int | str] = infer_auto_device_map(
        model,
        max_memory={**room, first: room[first] - own_head},
        no_split_module_classes=list(model._no_split_modules or ()),
        dtype=dtype,
    )
    if "disk" in places.values():
        raise UserError(f"{folder} does not fit into the memory of all devices together.")
    return places | {name: first for name, module in model.named_modules() if module in ends and name in places}


def _check_declared(name: str, skeleton: PreTrainedModel, folder: Path) -> None:
    """Raise UserError where config.json declares far more than the files hold, before memory is taken for it.

    transformers would make up what is missing: a small download could ask for any amount of memory.
    """
    if "quantization_config" in ModelFolder(folder).config:
        return  # packed weights count differently
    declared, held = sum(weight.numel() for weight in skeleton.parameters()), ModelFolder(folder).parameters
    if declared > MOST_DECLARED * held:
        raise UserError(
            f"{name} declares {declared:,} parameters in its config.json, but its files hold {held:,}: they do not "
            "belong together. Fetch the model again."
        )


def _skeleton(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The model of a folder's config without memory for its weights."""
    with torch.device("meta"):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model = cast(
            PreTrainedModel, AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")
        )
        model.tie_weights()
    return model
