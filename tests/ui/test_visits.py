"""Runs of visitors: counted, bounded in time, and told to the log without a word of what was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest

from playground.decoding.trace import Lane, Step, Trace
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.run import LaneSpec, Run, RunSpec
from playground.ui.form import DEFAULTS
from playground.ui.limits import OWN_MACHINE
from playground.ui.page import build_page
from playground.ui.visits import Visits
from tests.ui import traces

SECRET = "a prompt that nobody else is to read"
SPEC = RunSpec(SECRET, (LaneSpec("autoregressive"), LaneSpec("draft-model")))


class FakeLane:
    """A lane that hands out the steps of a trace; breaks after `breaks` of them."""

    def __init__(self, header: Lane, steps: list[Step], breaks: int | None = None) -> None:
        self.header, self._steps, self._breaks = header, steps, breaks

    def warm(self) -> None:
        """Nothing to warm."""

    def steps(self) -> Iterator[Step]:
        yield from self._steps[: self._breaks]
        if self._breaks is not None:
            raise UserError("The cable was cut.")


def visits(breaks: int | None = None, method: str | None = None, **limits: int) -> Visits:
    """Visits whose runs have the two lanes of a recorded race; the first may break, and be of another `method`."""

    def open_run(spec: RunSpec) -> Run:
        recorded = traces.race()
        headers = [replace(lane, notices=[], prompt=SECRET) for lane in recorded.lanes]
        headers[0].method = method or headers[0].method
        lanes = [FakeLane(headers[0], recorded.steps(0), breaks), FakeLane(headers[1], recorded.steps(1))]
        return Run(Trace(headers, max_new_tokens=24), lanes, ExitStack())

    return Visits(open_run, replace(OWN_MACHINE, **limits))


def events(told: list[dict[str, object]]) -> list[object]:
    return [line["event"] for line in told]


def test_a_run_is_told_from_start_to_end(told: list[dict[str, object]]) -> None:
    with visits().open(SPEC) as visit:
        seen = list(visit.live())
    assert events(told) == ["run started", "run ended"]
    started, ended = told
    assert started["run"] == ended["run"] == visit.id
    assert [lane["method"] for lane in started["lanes"]] == [lane.method for lane in visit.run.trace.lanes]
    assert [lane["models"] for lane in ended["lanes"]] == [lane.models for lane in visit.run.trace.lanes]
    assert sum(lane["tokens"] for lane in ended["lanes"]) == sum(len(step.emitted) for _, step in seen) > 0
    assert [lane["finish"] for lane in ended["lanes"]] == [visit.run.summary(at).finish_reason for at in (0, 1)]
    assert ended["seconds"] >= 0
    assert SECRET not in json.dumps(told)


def test_a_run_that_is_left_is_told_as_cancelled(told: list[dict[str, object]]) -> None:
    def page() -> Iterator[object]:
        with visits().open(SPEC) as visit:
            yield from visit.live()

    run = page()
    next(run)
    run.close()
    assert events(told) == ["run started", "run cancelled"]
    assert [lane["finish"] for lane in told[-1]["lanes"]] == [None, None]


def test_a_lane_that_fails_is_told_with_its_reason(told: list[dict[str, object]]) -> None:
    with visits(breaks=2).open(SPEC) as visit, pytest.raises(UserError, match="The cable was cut"):
        list(visit.live())
    assert events(told) == ["run started", "lane failed", "run ended"]
    assert told[1]["level"] == "warning"
    assert (told[1]["method"], told[1]["why"]) == ("autoregressive", "The cable was cut.")
    assert [lane["finish"] for lane in told[2]["lanes"]] == [None, "length"]


def test_what_a_server_said_stays_out_of_the_log(told: list[dict[str, object]]) -> None:
    with visits(breaks=2, method="vllm").open(SPEC) as visit, pytest.raises(UserError):
        list(visit.live())
    assert "cable" not in json.dumps(told)


def test_a_defect_is_told_by_its_kind(told: list[dict[str, object]]) -> None:
    with pytest.raises(ZeroDivisionError), visits().open(SPEC):
        _ = 1 / 0
    assert told[-1]["error"] == "ZeroDivisionError"


def test_a_run_that_takes_too_long_ends_with_what_there_is() -> None:
    with visits(seconds=0).open(SPEC) as visit, pytest.raises(UserError, match="it may take at most 0\\."):
        list(visit.live())
    assert len(visit.run.trace.order) == 1


def test_a_visitor_has_so_many_runs_at_once_and_others_theirs() -> None:
    desk = visits(runs=2)
    with desk.admitted(SPEC, "me"), desk.admitted(SPEC, "me"):
        with pytest.raises(UserError, match="3 runs of yours at once; here at most 2"), desk.admitted(SPEC, "me"):
            pass
        with desk.admitted(SPEC, "you"):
            assert desk.going == 3
    assert desk.going == 0
    with desk.admitted(SPEC, "me"):
        assert desk.going == 1


def test_a_refused_run_counts_for_nothing() -> None:
    desk = visits(tokens=8, runs=1)
    for _ in range(2):
        with pytest.raises(UserError, match="64 tokens to write; here at most 8"), desk.admitted(SPEC, "me"):
            pass
    assert desk.going == 0


def test_the_page_s_runs_are_visits() -> None:
    page = build_page(ModelStore(limit=0), allow_local=False)
    (start,) = (block.fn for block in page.fns.values() if block.name == "start")
    *_, last = start(SimpleNamespace(session_hash="me"), *(DEFAULTS | {"length": 257}).values())
    said = "That would be 257 tokens to write; here at most 256 are allowed. Ask for fewer."
    assert json.loads(last)["notice"] == {"kind": "error", "text": said}
