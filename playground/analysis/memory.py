"""How much memory a lane took, counted in what it asked for.

The process's own high water says little: models of other lanes stay resident, and freed memory goes back late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from playground.decoding.cache import KVCache
from playground.decoding.drafting import Drafter
from playground.decoding.session import Session
from playground.drafters.cascade import Cascade
from playground.drafters.draft_model import DraftModel
from playground.models.store import ModelStore


@dataclass(frozen=True)
class Memory:
    """Bytes of the weights that a lane uses, of the key-value caches that it reserved, and, on a GPU, the most that
    torch had allocated meanwhile, the weights of other lanes taken off (`allocated`, 0 elsewhere)."""

    weights: int
    cache: int
    allocated: int = 0

    @property
    def peak(self) -> int:
        return max(self.weights + self.cache, self.allocated)


def watch() -> None:
    """Start counting what torch allocates on a GPU."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def memory(store: ModelStore, sessions: Sequence[Session]) -> Memory:
    """What the sessions of an open run took since `watch`; its models are those of the store that are leased."""
    resident = store.resident()
    allocated = 0
    if torch.cuda.is_available():
        idle = sum(one.size for one in resident if not one.leases and one.device.startswith("cuda"))
        allocated = max(0, torch.cuda.max_memory_allocated() - idle)
    found = {id(cache): cache for session in sessions for cache in caches(session)}
    layers = [layer for cache in found.values() for layer in cache.states if layer.is_initialized]
    reserved = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    return Memory(sum(one.size for one in resident if one.leases), reserved, allocated)


def caches(session: Session) -> Iterator[KVCache]:
    """The caches of a session: its own, and those of sessions that draft for it."""
    yield session.executor.cache
    yield from _drafting(session.drafter)


def _drafting(drafter: Drafter) -> Iterator[KVCache]:
    if isinstance(drafter, DraftModel) and drafter.session is not None:
        yield from caches(drafter.session)
    if isinstance(drafter, Cascade):
        for one in drafter.members:
            yield from _drafting(one)
