"""What a model folder says about itself, read without loading a weight."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from playground.decoding.codec import decode_value
from playground.errors import UserError

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


@dataclass(frozen=True)
class Tensor:
    """One entry of a safetensors header: name, dtype as safetensors spells it ("F32"), shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class ModelFolder:
    """A folder in the layout of transformers: config.json, weights, tokenizer."""

    path: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json. Raises UserError where it is missing or no JSON object."""
        return read_json(self.path / "config.json")

    @cached_property
    def weight_files(self) -> list[Path]:
        """The weight files, shards in order. Raises UserError where there are none or a shard is missing."""
        for name in WEIGHTS:
            if (self.path / name).is_file():
                return [self.path / name]
            if (index := self.path / f"{name}.index.json").is_file():
                return self._shards(index)
        raise UserError(f"{self.path} holds no weights: expected model.safetensors (or its index and shards).")

    def _shards(self, index: Path) -> list[Path]:
        weight_map = decode_value(dict[str, str], read_json(index).get("weight_map", {}), f"{index}, weight_map")
        names = sorted(set(weight_map.values()))
        for name in names:
            if Path(name).name != name:
                raise UserError(f"{index} names a file outside its folder: {name!r}. This folder is not loaded.")
        missing = [name for name in names if not os.path.isfile(self.path / name)]  # Path's raises for long names
        if missing or not names:
            raise UserError(f"{self.path} is incomplete: {', '.join(missing) or 'the index names no weights'}.")
        return [self.path / name for name in names]

    @cached_property
    def tensors(self) -> list[Tensor]:
        """All tensors of the safetensors files; empty where the weights are pickled.

        Raises UserError for a file that is damaged or cut short.
        """
        return [t for file in self.weight_files if file.suffix == ".safetensors" for t in read_header(file)]

    @property
    def parameters(self) -> int:
        """Number of parameters; for pickled weights an estimate from file sizes at two bytes each."""
        if self.tensors:
            return sum(tensor.numel for tensor in self.tensors)
        return sum(file.stat().st_size for file in self.weight_files) // 2

    def check(self) -> None:
        """Raises UserError unless config, weights and tokenizer are all there and whole."""
        if not self.path.is_dir():
            raise UserError(f"There is no folder {self.path}.")
        if (self.path / "adapter_config.json").is_file():  # its base model lies elsewhere
            raise UserError(f"{self.path} is an adapter, not a model. Merge it into its base model first.")
        _ = self.config, self.tensors
        if not any((self.path / name).is_file() for name in TOKENIZERS):
            raise UserError(f"{self.path} holds no tokenizer: expected tokenizer.json or tokenizer.model.")


def read_header(file: Path) -> list[Tensor]:
    """The tensors of a safetensors file. Raises UserError if the file is not one, or not whole."""
    broken = UserError(f"{file} is damaged or cut short. Delete it and fetch it again.")
    with file.open("rb") as stream:
        size = file.stat().st_size
        start = stream.read(8)
        if len(start) < 8 or (length := struct.unpack("<Q", start)[0]) > size - 8:
            raise broken
        try:
            header = json.loads(stream.read(length))
            entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
            end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
            tensors = [
                Tensor(name, str(entry["dtype"]), tuple(int(length) for length in entry["shape"]))
                for name, entry in entries.items()
            ]
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:  # JSON of another form
            raise broken from error
    if end != size - 8 - length:
        raise broken
    return tensors


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object in `file`. Raises UserError where there is none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{file} is missing.") from error
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is damaged: {error}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{file} is damaged: expected a JSON object.")
    return content
