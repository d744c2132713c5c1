"""What travels from a run to the browser: JSON strings with the Steps of some 40 milliseconds.

A run's first message has its `header`, the first line of its trace file; the next ones have `steps` as [lane, step]
pairs, the last an `end`. What was sent as unknown and is known by now comes as `amended`. All carry the `run` and a
sequence number, so that the browser can tell a late, doubled or missing message; one without steps says that the run
goes on. A `notice` may come alone. Steps are those of trace.py in compact form (fields at their default left
out, lists of nodes and tokens by column) and lose nothing: the browser can write the trace file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, asdict, fields, replace
from io import StringIO
from time import monotonic
from typing import Any, Literal

from playground.decoding.trace import Emitted, Node, Seconds, Status, Step, Trace
from playground.errors import UserError

FLUSH_SECONDS = 0.04
FLUSH_STEPS = 64
BEAT_SECONDS = 1.0

Packed = dict[str, Any]
STATUS_CODES = {status: code for code, status in enumerate(Status)}


def notice(kind: Literal["progress", "done", "error"], text: str) -> str:
    """A sentence for the visitor, apart from any run. After "progress" the page waits for another."""
    return _message(notice={"kind": kind, "text": text})


def whole(trace: Trace, run: str) -> str:
    """A finished trace in one message."""
    return _message(run=run, seq=0, live=False, header=_header(trace), steps=_pack_steps(trace.order), end="done")


def stream(
    trace: Trace, steps: Iterable[tuple[int, Step] | None], run: str, clock: Callable[[], float] = monotonic
) -> Iterator[str]:
    """A run as it happens: `trace` is its header, `steps` may take its time. A UserError ends it as a notice."""
    header = _header(trace)
    yield _message(run=run, seq=0, live=True, header=header, notice=None)
    seq, unknown = 1, list[tuple[int, Step]]()

    def amended(ended: bool) -> dict[str, object]:
        """What was sent and is known better by now: steps of which something was unknown, and the header."""
        known = [pair for pair in unknown if not _is_open(pair[1])]
        if not known and not (ended and _header(trace) != header):
            return {}
        unknown[:] = [pair for pair in unknown if _is_open(pair[1])]
        return {"amended": {"header": _header(trace), "steps": _pack_steps(known)}}

    try:
        for batch in batches(steps, clock):
            yield _message(run=run, seq=seq, steps=_pack_steps(batch), **amended(ended=False))
            unknown += [pair for pair in batch if _is_open(pair[1])]
            seq += 1
    except UserError as error:
        told = {"kind": "error", "text": str(error)}
        yield _message(run=run, seq=seq, end="failed", notice=told, **amended(ended=True))
    else:
        yield _message(run=run, seq=seq, end="done", **amended(ended=True))


def batches(
    steps: Iterable[tuple[int, Step] | None], clock: Callable[[], float] = monotonic
) -> Iterator[list[tuple[int, Step]]]:
    """Steps in groups: what came within FLUSH_SECONDS, at most FLUSH_STEPS.

    Nothing waits for a slow step: a group goes out if the next step, taken to last as long as this one, would be late.
    While `steps` gives None, nothing happens; an empty group every BEAT_SECONDS says so. Where `steps` ends in a
    UserError, the steps before it go out first.
    """
    batch: list[tuple[int, Step]] = []
    opened = previous = clock()
    failed: UserError | None = None
    try:
        for item in steps:
            if item is not None:
                batch.append(item)
            now = clock()
            late = now if item is None else 2 * now - previous
            if len(batch) == FLUSH_STEPS or late - opened >= (FLUSH_SECONDS if batch else BEAT_SECONDS):
                yield batch
                batch, opened = [], clock()
            previous = now
    except UserError as error:
        failed = error
    if batch:
        yield batch
    if failed is not None:
        raise failed


def _is_open(step: Step) -> bool:
    """Whether something of the step is unknown yet."""
    return any(token.status is Status.UNKNOWN for token in step.emitted)


def pack_step(step: Step) -> Packed:
    """The compact form of a Step."""
    packed = _given(step)
    packed["nodes"] = _columns(step.nodes)
    packed["emitted"] = _columns(step.emitted)
    packed["seconds"] = _given(step.seconds)
    if step.counts is not None:
        packed["counts"] = asdict(step.counts)
    if step.children:
        packed["children"] = [pack_step(child) for child in step.children]
    if step.detail:
        packed["detail"] = [asdict(visited) for visited in step.detail]
    return packed


def _pack_steps(order: Sequence[tuple[int, Step]]) -> list[tuple[int, Packed]]:
    return [(lane, pack_step(step)) for lane, step in order]


def _given(value: Step | Seconds) -> Packed:
    """The fields of `value` that differ from their default."""
    given = {}
    for field in fields(value):
        held = getattr(value, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if held != default:
            given[field.name] = held
    return given


def _columns(items: Sequence[Node] | Sequence[Emitted]) -> Packed:
    """One list per field; a field that is the same throughout is given once, and left out where it is the default."""
    if not items:
        return {"n": 0}
    columns: Packed = {"n": len(items)}
    for field in fields(items[0]):
        column = [getattr(item, field.name) for item in items]
        if field.name == "status":
            column = [STATUS_CODES[status] for status in column]
        if column.count(column[0]) < len(column):
            columns[field.name] = column
        elif column[0] != field.default:
            columns[field.name] = column[0]
    return columns


def _header(trace: Trace) -> str:
    """The first line of the trace file, as text: a 64-bit seed would not survive being a number in the browser."""
    file = StringIO()
    replace(trace, order=[]).write(file)
    return file.getvalue().partition("\n")[0]


def _message(**parts: object) -> str:
    return json.dumps(parts, separators=(",", ":"), allow_nan=False)
