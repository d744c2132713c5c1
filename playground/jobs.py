"""One long piece of work at a time, in the background, for visitors who come, watch and leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread
from typing import TypeVar

from playground.errors import UserError

LOOK_SECONDS = 0.3
GONE_SECONDS = 5.0  # a visitor who has not looked for so long has left

View = TypeVar("View")


class HaltedError(Exception):
    """For a job to raise where it finds that it was asked to end."""


class Jobs:
    """What this machine does beside races: one job at a time, whatever its kind ("training", "benchmark")."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._halt = Event()
        self._kind = self._what = ""
        self._owners: dict[str, str] = {}
        self._seen: dict[str, float] = {}
        self._working: Thread | None = None

    def start(
        self,
        kind: str,
        what: str,
        visitor: str,
        prepare: Callable[[], Callable[[], None]],
        failed: Callable[[str], None],
    ) -> None:
        """Do in the background what `prepare` returns; it is called when nothing else runs and before anybody may ask.

        `what` says what is going on, for those who have to wait; `failed` is told, in a sentence, that the work did not
        end well. Raises UserError while another job runs.
        """
        with self._lock:
            if self._alive:
                raise UserError(
                    f"{self._what}, and one such job at a time is what this machine does. You can watch it in its "
                    "room; start yours when it has ended."
                )
            work = prepare()
            self._kind, self._what, self._owners[kind] = kind, what, visitor
            self._seen[visitor] = time.monotonic()
            self._halt.clear()
            self._working = Thread(target=_tried, args=(work, kind, failed), name=kind, daemon=True)
            self._working.start()

    def stop(self, kind: str, visitor: str) -> None:
        """Ask the job to end early. Raises UserError for one that somebody else watches over."""
        with self._lock:
            if not self.busy(kind):
                return
            owner = self._owners[kind]
            away = time.monotonic() - self._seen.get(owner, 0.0) > GONE_SECONDS
            if visitor != owner and not away:
                raise UserError("Another visitor started this and is watching it: only they can stop it.")
            self._halt.set()

    @property
    def halted(self) -> bool:
        """Whether the job that runs was asked to end."""
        return self._halt.is_set()

    def busy(self, kind: str) -> bool:
        """Whether a job of this kind runs."""
        return self._alive and self._kind == kind

    def owns(self, kind: str, visitor: str) -> bool:
        """Whether `visitor` started the latest job of this kind."""
        return self._owners.get(kind) == visitor

    def watch(self, kind: str, visitor: str, view: Callable[[], View]) -> Iterator[View]:
        """The view now, and after every change while a job of this kind runs."""
        told: View | None = None
        while True:
            self._seen[visitor] = time.monotonic()
            busy = self.busy(kind)
            if (now := view()) != told:
                yield now
                told = now
            if not busy:
                return
            time.sleep(LOOK_SECONDS)

    @property
    def _alive(self) -> bool:
        return self._working is not None and self._working.is_alive()


def _tried(work: Callable[[], None], kind: str, failed: Callable[[str], None]) -> None:
    wrong = f"The {kind} broke off. The server’s own log says why."
    try:
        work()
        wrong = ""
    except UserError as error:
        wrong = str(error)
    finally:  # what nobody foresaw goes on to the thread's hook, which logs it
        if wrong:
            failed(wrong)
