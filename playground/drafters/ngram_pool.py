"""The n-gram pool of lookahead decoding: what the window has found, by first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Change:
    """What an insertion did to an n-gram. The changes of a run, in order, rebuild its pool."""

    kind: Literal["added", "refreshed", "evicted"]
    ngram: tuple[int, ...]


class NgramPool:
    """At most `capacity` n-grams per first token; the least recently inserted is evicted.

    Inserting an n-gram again makes it the newest; being tried as a candidate does not.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # A dict per first token, for its order: oldest insertion first.
        self.found: dict[int, dict[tuple[int, ...], None]] = {}

    def insert(self, ngram: Sequence[int]) -> list[Change]:
        """Enter an n-gram and say what that changed."""
        entry = tuple(ngram)
        entries = self.found.setdefault(entry[0], {})
        known = entry in entries
        if known:
            del entries[entry]
        entries[entry] = None
        changes = [Change("refreshed" if known else "added", entry)]
        if len(entries) > self.capacity:
            oldest = next(iter(entries))
            del entries[oldest]
            changes.append(Change("evicted", oldest))
        return changes

    def after(self, token: int) -> list[tuple[int, ...]]:
        """What followed `token`: its n-grams without their first token, oldest insertion first."""
        return [entry[1:] for entry in self.found.get(token, ())]
