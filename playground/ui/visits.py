"""Runs that visitors make: within the limits, counted, and told to the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self

from playground.decoding.codec import JSON
from playground.decoding.trace import Step
from playground.errors import UserError
from playground.remote.lane import VLLM
from playground.run import Run, RunSpec
from playground.ui.limits import Limits, at_most
from playground.ui.logs import tell


class Visits:
    """Opens runs for visitors. A visitor is an open page or a program's client, by its session."""

    def __init__(self, open_run: Callable[[RunSpec], Run], limits: Limits) -> None:
        self.limits = limits
        self._open_run = open_run
        self._counting = Lock()
        self._going: Counter[str] = Counter()

    @property
    def going(self) -> int:
        """How many runs are under way."""
        with self._counting:
            return self._going.total()

    @contextmanager
    def open(self, spec: RunSpec) -> Iterator[Visit]:
        """An admitted run, in whatever process has the models. Raises UserError before any work for what is wrong."""
        with self._open_run(spec) as run, Visit(run, self.limits.seconds) as visit:
            yield visit

    @contextmanager
    def admitted(self, spec: RunSpec, visitor: str) -> Iterator[None]:
        """Around a run of `visitor`. Raises UserError for one that is too much."""
        self.limits.check(spec)
        with self._counting:
            at_most(self._going[visitor] + 1, self.limits.runs, "runs of yours at once")
            self._going[visitor] += 1
        try:
            yield
        finally:
            with self._counting:
                self._going[visitor] -= 1
                self._going += Counter()  # forgets those who have none


@dataclass
class Visit:
    """A run under way, of at most `seconds` by its lanes' own clocks. The log is told how it begins and how it ends."""

    run: Run
    seconds: float
    id: str = field(default_factory=lambda: token_hex(4))
    _taken: float = 0.0
    _why: str = ""

    def __enter__(self) -> Self:
        self._began = monotonic()
        tell("run started", run=self.id, lanes=[*self._lanes()], max_new_tokens=self.run.trace.max_new_tokens)
        return self

    def live(self) -> Iterator[tuple[int, Step] | None]:
        """The run's own `live`. Raises UserError when it has taken too long, with what there is in its trace."""
        try:
            with closing(self.run.live()) as events:
                for event in events:
                    yield event
                    if event is not None:
                        self._count(event[1].seconds.own)
        except UserError as error:
            self._why = str(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for at, why in self.run.failed.items():
            method = self.run.trace.lanes[at].method
            tell("lane failed", logging.WARNING, run=self.id, method=method, why=self._tellable(why))
        tell(
            "run cancelled" if kind is GeneratorExit else "run ended",
            run=self.id,
            lanes=[*self._ended()],
            seconds=round(monotonic() - self._began, 3),
            why=self._tellable(self._why),
            error=kind.__name__ if kind and not issubclass(kind, GeneratorExit | UserError) else "",
        )

    def _count(self, seconds: float) -> None:
        self._taken += seconds
        if self._taken > self.seconds:
            raise UserError(
                f"The run was ended after {self._taken:.0f} seconds of computing; here it may take at most "
                f"{self.seconds:g}. Ask for fewer tokens or lanes."
            )

    def _tellable(self, why: str) -> str:
        """`why` if it is of this process's own making: what a server says may hold the prompt."""
        return "" if any(lane.method == VLLM.id for lane in self.run.trace.lanes) else why

    def _lanes(self) -> Iterator[dict[str, JSON]]:
        for lane in self.run.trace.lanes:
            yield {"method": lane.method, "models": {**lane.models}}

    def _ended(self) -> Iterator[dict[str, JSON]]:
        """Each lane with the tokens it wrote and why it ended, None for one that did not come to its end."""
        for at, lane in enumerate(self._lanes()):
            steps = [step for number, step in self.run.trace.order if number == at]
            finish = steps[-1].finish if steps else None
            yield {**lane, "tokens": sum(len(step.emitted) for step in steps), "finish": finish}
