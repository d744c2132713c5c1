"""A GGUF file turned into an ordinary model folder, once.

Every other part of the project then sees one layout: config.json, safetensors, tokenizer.json.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from playground.errors import UserError
from playground.models.cache import Progress, build_once, find_built, quiet
from playground.models.strangers import reading

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DENSE = {"F16": torch.float16, "BF16": torch.bfloat16}
"""Tensor types that need no wider dtype. Block formats do: scale times code plus offset has more bits than
float16 keeps (in the Q4_1 file of SmolLM2-135M, 22.2 of 28.3 million embedding values would change)."""


@dataclass(frozen=True)
class GgufInfo:
    """What the header of a GGUF file says."""

    architecture: str
    pre_tokenizer: str
    dtype: torch.dtype
    parameters: int

    @property
    def size(self) -> int:
        """Bytes of the weights as we keep them."""
        return self.parameters * self.dtype.itemsize


@dataclass(frozen=True)
class Gguf:
    """A GGUF file as a source: converted once into a folder of the cache."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    def find(self) -> Path | None:
        """The converted folder, or None."""
        return find_built(self._folder) if self.path.is_file() else None

    def fetch(self, progress: Progress = quiet) -> Path:
        """The converted folder. Raises UserError: no such file, damaged, unknown architecture, disk full."""
        if (found := self.find()) is not None:
            return found
        size = read_info(self.path).size
        return build_once(self._folder, size, lambda folder: convert(self.path, folder, progress))

    @property
    def _folder(self) -> str:
        """A name that changes when the file does."""
        state = self.path.stat()
        key = f"{self.path.resolve()}|{state.st_size}|{state.st_mtime_ns}"
        return f"gguf-{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def read_info(file: Path) -> GgufInfo:
    """The header of `file`. Raises UserError if there is no such file or it is no whole GGUF file."""
    from gguf import GGUFReader

    if not file.is_file():
        raise UserError(f"There is no file {file}.")
    try:
        reader = GGUFReader(file)
    except (ValueError, IndexError, KeyError) as error:
        raise UserError(f"{file} is not a whole GGUF file ({error}). Fetch it again.") from error
    types = {tensor.tensor_type.name for tensor in reader.tensors} - {"F32"}
    dtype = DENSE.get(next(iter(types)), torch.float32) if len(types) == 1 else torch.float32
    fields = {name: reader.get_field(name) for name in ("general.architecture", "tokenizer.ggml.pre")}
    said = {name: str(field.contents()) if field else "" for name, field in fields.items()}
    parameters = sum(int(tensor.n_elements) for tensor in reader.tensors)
    return GgufInfo(said["general.architecture"], said["tokenizer.ggml.pre"], dtype, parameters)


def convert(file: Path, folder: Path, progress: Progress = quiet) -> None:
    """Writes the model and tokenizer of `file` into `folder`, losing nothing of the dequantised weights.

    Raises UserError for a damaged file or an architecture that transformers cannot read from GGUF.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    info = read_info(file)
    progress(f"Unpacking {file.name}", None)
    with reading(f"transformers cannot read {file.name} ({info.architecture})"):
        model = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=info.dtype,
            local_files_only=True,
            trust_remote_code=False,
        )
        tokenizer = AutoTokenizer.from_pretrained(
            file.parent, gguf_file=file.name, local_files_only=True, trust_remote_code=False
        )
    progress(f"Saving {file.stem}", None)
    _clean(model).save_pretrained(folder, max_shard_size="5GB")
    _repair(tokenizer, info)
    tokenizer.save_pretrained(folder)


def _clean(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a model that may be saved: transformers refuses one that it loaded from GGUF."""
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        clean = type(model)(config)
    clean.load_state_dict(model.state_dict(), assign=True)
    clean.tie_weights()
    clean.generation_config = model.generation_config
    return clean


def _repair(tokenizer: PreTrainedTokenizerBase, info: GgufInfo) -> None:
    """Split digits one by one where the file asks for it; transformers 5.24 does not know "smollm"."""
    if info.pre_tokenizer == "smollm":
        from tokenizers import pre_tokenizers

        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
