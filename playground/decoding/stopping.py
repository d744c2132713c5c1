"""Where a run ends, decided inside any block of accepted tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol


class Stop(Protocol):
    """A stopping rule over output ids, of which the last `new` have just been added.

    Returns how many of `ids` to keep and why, or None to go on. It is called once per step, in order, and keeps at
    least the first new token: what earlier steps emitted cannot be taken back.
    """

    def __call__(self, ids: Sequence[int], new: int) -> tuple[int, str] | None: ...


class Ending:
    """End-of-sequence ids, a stopping rule and the room left, whichever comes first.

    `room` is how many tokens fit in all, `full` the finish reason once they are there ("length" or "context").
    """

    def __init__(self, eos_ids: Collection[int], stop: Stop | None, room: int, full: str) -> None:
        self.eos_ids, self.stop, self.room, self.full = frozenset(eos_ids), stop, room, full

    def __call__(self, ids: Sequence[int], new: int) -> tuple[int, str] | None:
        """Keep this many of `ids` because of this. The earliest cut wins; a tie goes to EOS, then to the stop."""
        found: list[tuple[int, str]] = []
        first = len(ids) - new
        for at in range(first, len(ids)):
            if ids[at] in self.eos_ids:
                found.append((at + 1, "eos"))
                break
        if self.stop is not None and (cut := self.stop(ids, new)) is not None:
            if not first < cut[0] <= len(ids):
                raise ValueError(f"a stop wants to keep {cut[0]} of {len(ids)} tokens, of which {new} are new")
            found.append(cut)
        if len(ids) >= self.room:
            found.append((self.room, self.full))
        return min(found, key=lambda cut: cut[0]) if found else None
