"""What every training on a model's own text begins with: writing it, in the time that there is."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from playground.decoding.target import TransformersTarget
from playground.errors import UserError
from playground.training.loop import Schedule
from playground.training.prompts import Prompts
from playground.training.self_distillation import TextCount, Writing, write_text

WRITING_SHARE = 0.5  # of the time given
MARGIN = 0.85  # of the time left for learning: what a few steps measured is not what all will take


@dataclass(frozen=True)
class Wrote:
    """So many of the texts that are wanted are written."""

    count: TextCount
    wanted: int


@dataclass(frozen=True)
class Learned:
    """A step of `steps` is done; `line` is its line of the log."""

    line: dict[str, float]
    steps: int


@dataclass(frozen=True)
class Judging:
    """Learning is over; measuring what was learned comes next, and takes a while."""


class Clock:
    """The time for a training, from now on: `minutes`, or None for as long as it takes. What was once decided by it
    is kept in `work`, so that a run that is resumed repeats itself."""

    def __init__(self, minutes: float | None, work: Path) -> None:
        self._minutes, self._kept = minutes, work / "schedule.json"
        self._began = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds."""
        return float("inf") if self._minutes is None else 60 * self._minutes - (time.monotonic() - self._began)

    @property
    def enough_text(self) -> bool:
        return self._minutes is not None and self.left < (1 - WRITING_SHARE) * 60 * self._minutes

    @property
    def decided(self) -> bool:
        """Learning has begun: more text would change its steps."""
        return self._kept.is_file()

    def fitting(self, schedule: Schedule, once: Callable[[], object]) -> Schedule:
        """`schedule`, shortened to the time left; `once` does the work of a step, or nearly all."""
        if self._minutes is None:
            return schedule
        if self.decided:
            return replace(schedule, **json.loads(self._kept.read_text(encoding="utf-8")))
        times = []
        for _ in range(4):
            began = time.monotonic()
            once()
            times.append(time.monotonic() - began)
        found = schedule.shortened(max(10, int(MARGIN * self.left / min(times))))
        kept = {"stable": found.stable, "decay": found.decay, "warmup": found.warmup}
        self._kept.write_text(json.dumps(kept), encoding="utf-8")
        return found


def gather(target: TransformersTarget, prompts: Prompts, writing: Writing, work: Path, clock: Clock) -> Iterator[Wrote]:
    """Text after `prompts` in `work/held_out` and `work/seen`; what is there is not written again.

    Raises UserError where another model wrote it.
    """
    _check_author(target, work)
    # Held-out text first: without it nothing that follows can be judged.
    few = replace(writing, batch=min(writing.batch, len(prompts.held_out)))
    for _ in write_text(target, prompts.held_out, work / "held_out", few):
        pass
    wanted = prompts.seen
    if clock.decided:
        wanted = wanted[: writing.batch * len(list((work / "seen").glob("*.safetensors")))]
    for count in write_text(target, wanted, work / "seen", writing):
        yield Wrote(count, len(wanted))
        if clock.enough_text and not clock.decided:
            break


def _check_author(target: TransformersTarget, work: Path) -> None:
    """Hidden states of one model teach nothing about another, even of the same name."""
    weight = target.head.weight.detach().to("cpu", torch.float32).contiguous()
    author = hashlib.sha256(weight.numpy().tobytes()).hexdigest()
    kept = work / "author.txt"
    if not kept.is_file():
        work.mkdir(parents=True, exist_ok=True)
        kept.write_text(author, encoding="utf-8")
    elif kept.read_text(encoding="utf-8") != author:
        raise UserError(
            f"The text in {work} was written by another model than {target.name} as it is now. Begin afresh, in "
            "another folder for the work."
        )
