"""Run after run in one process, for long: memory, threads and open files must stay where they are after the warm-up.

    python -m benchmarks.soak --minutes 30

Methods, lengths, sampling and prompts change; some runs are left in the middle, some cannot be made. Prints a Markdown
table; exit status 1 if something grew.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median

from playground.errors import UserError
from playground.methods import METHODS
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, open_run
from playground.ui import wire

WARM = 0.25  # of the time, and every method at least once
FLAT_SHARE, FLAT_BYTES = 0.02, 24e6  # by which memory may differ: allocators round up and keep
PROMPTS = (
    "Once upon a time",
    "The king said",
    "def add(a, b):\n    return",
    "It was the best of times, " * 20,
    "x" * 400,
)


@dataclass(frozen=True)
class Reading:
    """What the process holds: bytes of memory, threads, open files."""

    memory: int
    threads: int
    files: int


def read() -> Reading:
    """What this process holds now (Linux)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Reading(
        pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    )


@dataclass
class Soak:
    """Runs of every kind for `seconds`; the same `seed` gives the same runs."""

    seconds: float
    seed: int = 1
    kinds: Counter[str] = field(default_factory=Counter)
    readings: list[Reading] = field(default_factory=list)

    def measure(self) -> None:
        store, dice = ModelStore(), random.Random(self.seed)
        methods = list(METHODS)
        for method in methods:
            self._run(store, RunSpec(PROMPTS[0], (LaneSpec(method),), max_new_tokens=16), None)
        began = time.monotonic()
        while (gone := time.monotonic() - began) < self.seconds or not self.readings:
            lanes = tuple(LaneSpec(dice.choice(methods)) for _ in range(dice.choice((1, 1, 2, 3))))
            spec = RunSpec(
                dice.choice(PROMPTS),
                lanes,
                temperature=dice.choice((0.0, 0.0, 0.8)),
                seed=dice.randrange(2**32),
                max_new_tokens=dice.choice((4, 16, 48, 96)),
                stop=dice.choice(((), (".",), ("the", "\n"))),
                detail=dice.random() < 0.5,
            )
            if dice.random() < 0.1:
                spec = RunSpec(dice.choice(("", "word " * 2000)), lanes)
            self._run(store, spec, dice.randrange(1, 6) if dice.random() < 0.3 else None)
            if gone > WARM * self.seconds:
                self.readings.append(read())

    def _run(self, store: ModelStore, spec: RunSpec, left_after: int | None) -> None:
        """A run to its end, or left after so many messages to the page."""
        kind = "ended" if left_after is None else "left in the middle"
        try:
            with open_run(spec, store) as run, closing(wire.stream(run.trace, run.live(), "soak")) as messages:
                self.kinds["messages"] += _count(islice(messages, left_after))
        except UserError:
            kind = "could not be made"
        self.kinds[kind] += 1
        if any(resident.leases for resident in store.resident()):
            raise RuntimeError(f"a model is still leased after {spec}")

    @property
    def ends(self) -> tuple[list[Reading], list[Reading]]:
        """The readings of the first and of the last third after the warm-up."""
        third = max(1, len(self.readings) // 3)
        return self.readings[:third], self.readings[-third:]

    def growth(self) -> list[str]:
        """What grew."""
        if len(self.readings) < 6:
            return [f"only {len(self.readings)} runs after the warm-up: too few to tell"]
        first, last = self.ends
        found = []
        before, after = (median(one.memory for one in part) for part in (first, last))
        if after - before > max(FLAT_BYTES, FLAT_SHARE * before):
            found.append(f"memory grew by {(after - before) / 1e6:.1f} MB")
        for what in ("threads", "files"):
            was, now = (max(getattr(one, what) for one in part) for part in (first, last))
            if now > was:
                found.append(f"{what} grew from {was} to {now}")
        return found

    def table(self) -> str:
        kinds = ("ended", "left in the middle", "could not be made")
        rows = [(f"runs, {kind}", f"{self.kinds[kind]}", "") for kind in kinds]
        memory = (f"{median(one.memory for one in part) / 1e6:.1f}" for part in self.ends)
        rows.append(("memory, median (MB)", *memory))
        for what in ("threads", "files"):
            rows.append((f"{what}, most", *(f"{max(getattr(one, what) for one in part)}" for part in self.ends)))
        lines = [("what", "first third", "last third"), ("---", "---:", "---:"), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _count(messages: Iterator[str]) -> int:
    return sum(1 for _ in messages)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    soak = Soak(60 * given.minutes, given.seed)
    soak.measure()
    print(soak.table())
    growth = soak.growth()
    print("\n".join(f"- {one}" for one in growth) or "Nothing grew.")
    return 1 if growth else 0


if __name__ == "__main__":
    sys.exit(main())
