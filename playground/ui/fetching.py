"""Models brought to this machine while the stage tells how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event

from playground.errors import UserError
from playground.models.sources import Source
from playground.ui import wire

TELL_SECONDS = 0.2


def fetch(sources: Iterable[Source]) -> Iterator[str]:
    """Messages for the stage while `sources` are fetched; at the end, that they are here or why not.

    Closing the iterator ends the fetch at its next word of progress.
    """
    latest, stopped = "Looking for the models …", Event()

    def tell(message: str, fraction: float | None) -> None:
        nonlocal latest
        if stopped.is_set():
            raise UserError("The fetch was stopped.")
        latest = message if fraction is None else f"{message}: {fraction:.0%}"

    def work() -> list[str]:
        names = []
        for source in sources:
            source.fetch(tell)
            names.append(source.name)
        return names

    pool = ThreadPoolExecutor(1, "fetch")
    try:
        working = pool.submit(work)
        yield from _watch(working, lambda: latest)
        yield wire.notice("done", f"On this machine: {', '.join(working.result())}.")
    except UserError as error:
        yield wire.notice("error", str(error))
    finally:
        stopped.set()
        pool.shutdown(wait=False)


def _watch(working: Future[list[str]], latest: Callable[[], str]) -> Iterator[str]:
    """What is said while `working` goes on, each sentence once."""
    said = ""
    while True:
        if (now := latest()) != said:
            said = now
            yield wire.notice("progress", said)
        if wait([working], TELL_SECONDS).done:
            return
