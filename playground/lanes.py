"""What runs in a race: a lane, and the lane of a method on models of this machine, with the labels of its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from playground.decoding.codec import JSON
from playground.decoding.gate import Gate
from playground.decoding.session import Session, decode
from playground.decoding.trace import Lane, Step
from playground.models.out_of_memory import within_memory
from playground.models.text import Pieces, TextStream


class RunningLane(Protocol):
    """Anything that yields Steps. `header` says who runs; it is complete when the Steps have ended."""

    header: Lane

    def warm(self) -> None:
        """Whatever is to be done before the clocks start."""

    def steps(self) -> Iterator[Step | None]:
        """The Steps as they happen, labelled: None while the lane waits for something outside this process.

        `Emitted.text` holds the pieces of the running text, `Step.pieces` a label for every token id that the lane
        mentions for the first time. Raises UserError, after the Steps there are, when the lane fails.
        """


class LocalLane:
    """The sequences of one method. `warm_up` is thrown away, so that no lane pays for first calls.

    Where memory runs out, the sequences and their caches are let go and UserError is raised.
    """

    def __init__(
        self,
        header: Lane,
        sessions: Sequence[Session],
        warm_up: Session,
        pieces: Pieces,
        stop: Sequence[str],
        gate: Gate,
    ) -> None:
        self.header, self.sessions, self._warm_up, self.gate = header, sessions, [warm_up], gate
        self.pieces = pieces
        self._streams = [TextStream(pieces, continues=True, stops=stop) for _ in sessions]
        self._known: set[int] = set()

    def warm(self) -> None:
        with within_memory(self.header.title, self._let_go):
            for _ in decode(self._warm_up, self.gate):
                pass
        self._warm_up = []

    def steps(self) -> Iterator[Step]:
        with within_memory(self.header.title, self._let_go):
            for step in decode(self.sessions, self.gate):
                self._label(step)
                yield step

    def _let_go(self) -> None:
        self.sessions, self._warm_up = (), []

    def _label(self, step: Step) -> None:
        stream = self._streams[step.row]
        for token, text in zip(step.emitted, stream.push([token.token for token in step.emitted]), strict=True):
            token.text = text
        if step.finish and step.emitted:
            step.emitted[-1].text += stream.finish()
        new = set(_mentioned(step)) - self._known
        self._known |= new
        step.pieces = {token: self.pieces.piece(token) for token in sorted(new)}


def _mentioned(step: Step) -> Iterator[int]:
    """Token ids of a step. Every whole number in a list of the view counts: one label too many costs a few bytes."""
    yield from (node.token for node in step.nodes)
    yield from (token.token for token in step.emitted)
    for visited in step.detail:
        yield from (token for token, _ in (*visited.p, *visited.q, *visited.residual))
    for child in step.children:
        yield from _mentioned(child)
    yield from _listed(step.view)


def _listed(value: JSON) -> Iterator[int]:
    if isinstance(value, dict):
        for item in value.values():
            if isinstance(item, dict | list):
                yield from _listed(item)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list):
                yield from _listed(item)
            elif type(item) is int and item >= 0:
                yield item
