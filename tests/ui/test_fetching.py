"""A fetch tells how far it is, ends with a sentence either way, and stops when nobody listens."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

from playground.errors import UserError
from playground.models.cache import Progress, quiet
from playground.ui.fetching import fetch


@dataclass
class Slow:
    """A source that tells of its progress whenever it is let on."""

    name: str
    fails: bool = False
    on: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: threading.Event = field(default_factory=threading.Event)

    def find(self) -> Path | None:
        return None

    def fetch(self, progress: Progress = quiet) -> Path:
        try:
            for part in (0.25, 0.5):
                progress(f"Downloading {self.name}", part)
                self.on.acquire()
            if self.fails:
                raise UserError("The disk is full. Make room.")
            return Path(self.name)
        finally:
            self.ended.set()


def notices(messages):
    return [tuple(json.loads(message)["notice"].values()) for message in messages]


def test_progress_is_told_and_the_end():
    source = Slow("one")
    going = fetch([source])
    said = [next(going)]
    while "25%" not in said[-1]:
        said.append(next(going))
    source.on.release()
    said.append(next(going))
    source.on.release()
    assert notices([*said[-2:], *going]) == [
        ("progress", "Downloading one: 25%"),
        ("progress", "Downloading one: 50%"),
        ("done", "On this machine: one."),
    ]


def test_a_failure_is_a_sentence():
    source = Slow("one", fails=True)
    source.on.release(2)
    assert notices(fetch([source]))[-1] == ("error", "The disk is full. Make room.")


def test_a_fetch_that_nobody_listens_to_ends_at_its_next_word():
    source = Slow("one")
    going = fetch([source])
    while "25%" not in next(going):
        pass
    going.close()
    source.on.release()
    assert source.ended.wait(10)
