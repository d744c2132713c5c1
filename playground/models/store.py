"""Models in memory, shared: loaded once for all who ask, and let go when room is needed and nobody uses them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from playground.decoding.gate import Gate
from playground.errors import UserError
from playground.models.cache import Progress, quiet
from playground.models.folder import ModelFolder
from playground.models.loading import LoadedModel, load_model
from playground.models.medusa_heads import LoadedHeads, load_heads
from playground.models.pairing import check_heads
from playground.models.placement import choose_device, choose_dtype, estimate, free_memory, place
from playground.models.sources import Source

T = TypeVar("T")


@dataclass(frozen=True)
class Key:
    """What makes two requests the same: which files, as they were last written, and how they lie in memory."""

    kind: str
    path: Path
    written: int
    dtype: torch.dtype
    device: torch.device


@dataclass
class _Resident:
    name: str
    value: Any
    size: int
    leases: int = 0


@dataclass(frozen=True)
class Resident:
    """What the page shows of a resident model: `size` in bytes, `leases` runs that use it now."""

    name: str
    kind: str
    dtype: str
    device: str
    size: int
    leases: int


@dataclass(frozen=True)
class LeasedHeads:
    """Heads on the device and in the number format of their model. Calling them is what a Medusa drafter does."""

    loaded: LoadedHeads
    base: LoadedModel

    @property
    def num_heads(self) -> int:
        return self.loaded.heads.num_heads

    def __call__(self, hidden: Tensor) -> Tensor:
        """Final hidden states [n, h] of the base model -> logits [num_heads, n, V]."""
        logits: Tensor = self.loaded.heads(hidden, self.base.target.logits)
        return logits


class ModelStore:
    """Keeps models for an app. `limit` is the most bytes it holds; None leaves it to what memory is free.

    A lease holds a model in memory while its `with` block runs. Models without a lease stay until room is
    needed; then the one unused for longest goes first. One model is loaded at a time.
    """

    def __init__(self, limit: int | None = None, progress: Progress = quiet) -> None:
        self.limit, self.progress = limit, progress
        self._residents: dict[Key, _Resident] = {}  # least recently used first
        self._changing = Lock()
        self._loading = Lock()
        self._gates: dict[torch.device, Gate] = {}

    def gate(self, device: torch.device) -> Gate:
        """What every pass on `device` goes through: one computes at a time, in the order of asking."""
        with self._changing:
            return self._gates.setdefault(device, Gate())

    @contextmanager
    def lease(
        self, source: Source, dtype: str = "auto", device: str = "auto", progress: Progress | None = None
    ) -> Iterator[LoadedModel]:
        """The model of `source`, fetched and loaded if need be.

        Raises UserError if it cannot be fetched or loaded, or does not fit beside what is in use.
        """
        told = progress or self.progress
        chosen = choose_device(device)
        path = source.fetch(told)
        key = Key("model", path, path.stat().st_mtime_ns, choose_dtype(dtype, chosen), chosen)

        def load() -> tuple[LoadedModel, int]:
            folder = ModelFolder(path)
            folder.check()
            size = estimate(folder, key.dtype)
            self._make_room(source.name, size, chosen)
            told(f"Loading {source.name}", None)
            placement = place(source.name, size, key.dtype, device)
            if self.limit is not None and self._held_bytes() + 2 * size > self.limit:
                placement = replace(placement, packed=False)
            model = load_model(source.name, path, placement)
            return model, _size(model.model) + model.target.packed_bytes

        with self._held(source.name, key, load) as model:
            yield model

    @contextmanager
    def lease_heads(self, source: Source, base: LoadedModel, progress: Progress | None = None) -> Iterator[LeasedHeads]:
        """The Medusa heads of `source`, on the device and in the number format of `base`, which must be leased.

        Raises UserError if they cannot be fetched or read, do not fit `base`, or do not fit in memory.
        """
        told = progress or self.progress
        weight = base.target.head.weight
        path = source.fetch(told)
        key = Key("heads", path, path.stat().st_mtime_ns, weight.dtype, weight.device)

        def load() -> tuple[LoadedHeads, int]:
            told(f"Loading {source.name}", None)
            loaded = load_heads(path)
            _refuse_misfits(base, loaded)
            size = sum(parameter.numel() for parameter in loaded.heads.parameters()) * key.dtype.itemsize
            self._make_room(source.name, size, key.device)
            loaded.heads.to(key.device, key.dtype)
            return loaded, size

        with self._held(source.name, key, load) as loaded:
            _refuse_misfits(base, loaded)  # they may have been loaded for another base
            yield LeasedHeads(loaded, base)

    def resident(self) -> list[Resident]:
        """What is in memory, most recently used last."""
        with self._changing:
            return [
                Resident(
                    resident.name,
                    key.kind,
                    str(key.dtype).removeprefix("torch."),
                    str(key.device),
                    resident.size,
                    resident.leases,
                )
                for key, resident in self._residents.items()
            ]

    def evict(self) -> int:
        """Lets go of everything that no run uses; the number of bytes given back."""
        freed = 0
        while (size := self._evict_oldest()) is not None:
            freed += size
        return freed

    @contextmanager
    def _held(self, name: str, key: Key, load: Callable[[], tuple[T, int]]) -> Iterator[T]:
        resident = self._take(key)
        if resident is None:
            with self._loading:
                resident = self._take(key)  # somebody else may have loaded it while we waited
                if resident is None:
                    value, size = load()
                    with self._changing:
                        resident = self._residents[key] = _Resident(name, value, size, leases=1)
        try:
            yield cast(T, resident.value)
        finally:
            with self._changing:
                resident.leases -= 1

    def _take(self, key: Key) -> _Resident | None:
        with self._changing:
            if (resident := self._residents.pop(key, None)) is not None:
                resident.leases += 1
                self._residents[key] = resident  # now the most recently used
            return resident

    def _make_room(self, name: str, size: int, device: torch.device) -> None:
        """Evicts until `size` bytes fit under the limit and, where eviction can bring that about, into memory."""
        while self.limit is not None and self._held_bytes() + size > self.limit:
            if self._evict_oldest() is None:
                raise UserError(
                    f"{name} needs {size / 1e9:.1f} GB, and of the {self.limit / 1e9:.1f} GB for models "
                    f"{self._held_bytes() / 1e9:.1f} GB are in use by other runs. Wait for one to end."
                )
        while size > free_memory(device) and self._evict_oldest(device) is not None:
            pass

    def _held_bytes(self) -> int:
        with self._changing:
            return sum(resident.size for resident in self._residents.values())

    def _evict_oldest(self, device: torch.device | None = None) -> int | None:
        """Drops the least recently used model (on `device`) that no run uses; its size, or None if there is none."""
        with self._changing:
            idle = (key for key, resident in self._residents.items() if resident.leases == 0)
            key = next((key for key in idle if device in (None, key.device)), None)
            if key is None:
                return None
            size = self._residents.pop(key).size
        gc.collect()  # modules and hooks refer to each other
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return size


def _refuse_misfits(base: LoadedModel, loaded: LoadedHeads) -> None:
    for finding in check_heads(base, loaded):
        if finding.level == "error":
            raise UserError(finding.text)


def _size(model: nn.Module) -> int:
    tensors = {tensor.data_ptr(): tensor.nbytes for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensors.values())
