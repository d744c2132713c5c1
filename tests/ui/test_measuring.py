"""Benchmarks for those who watch: live rows, stop and go on, limits, reports, and sentences for what cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from playground import jobs as jobs_module
from playground.analysis import bench as bench_module
from playground.analysis.bench import Bench
from playground.analysis.benchmark import Answer
from playground.errors import UserError
from playground.jobs import Jobs
from playground.models.store import ModelStore
from playground.ui import measuring as measuring_module
from playground.ui.measure import form_lanes, read_order, typed_lanes
from playground.ui.measuring import LARGEST_FILE, STRANGERS, BenchLimits, Measuring, Order

QUESTIONS = "".join(
    json.dumps({"question_id": at, "category": "ab"[at % 2], "turns": ["Say something"]}) + "\n" for at in range(4)
)
ORDER = Order(["draft-model k=2|4"], questions="mine.jsonl", rounds=2, max_new_tokens=4)


class Fake:
    """Answers at once: what a lane would have taken follows from its name."""

    promise = "ids"
    asked = 0
    at_question: Any = None

    def __init__(self, name: str, lane: object, *_: object) -> None:
        self.name, self.group = name, name.split()[0]

    def answer(self, prompt: str, earlier: object) -> Answer:
        Fake.asked += 1
        if Fake.at_question:
            Fake.at_question()
        fast = "k=4" in self.name
        shares = {"draft": 0.2, "forward": 0.7, "other": 0.1}
        return Answer([1], [1, 2, 3, 4], "text", 1 if fast else 2, 2 if fast else 4, [1, 1], 4, shares)


@pytest.fixture
def measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measuring]:
    """Lanes that answer at once instead of running, so that what is tested is the work around them."""
    monkeypatch.setattr(jobs_module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(measuring_module, "DRAW_SECONDS", 0.0)
    monkeypatch.setattr(bench_module, "OwnLane", Fake)
    monkeypatch.setattr(bench_module, "judge", lambda *_: {})
    Fake.asked, Fake.at_question = 0, None
    made = Measuring(Bench(ModelStore()), tmp_path / "measured")
    yield made
    Fake.at_question = None
    made.stop("owner")
    ended(made)


def ended(measuring: Measuring, visitor: str = "owner") -> dict[str, Any]:
    *_, last = measuring.watch(visitor)
    return last


def test_a_benchmark_fills_its_table_and_leaves_reports(measuring: Measuring) -> None:
    assert ended(measuring)["phase"] == "idle"
    measuring.start(ORDER, QUESTIONS, "owner")
    last = ended(measuring)
    assert (last["phase"], last["done"], last["of"]) == ("done", 24, 24)
    rows = {(row["lane"], row["category"]): row for row in last["rows"]}
    assert set(rows) == {
        (lane, category)
        for lane in ("autoregressive", "draft-model k=2", "draft-model k=4")
        for category in ("overall", "a", "b")
    }
    assert rows["draft-model k=4", "overall"]["speedups"]["autoregressive"]["median"] == 2
    assert last["mine"]
    assert last["paused"] is None
    assert json.loads(measuring.report("json"))["rows"] == last["rows"]
    assert "draft-model k=4" in measuring.report("md")
    assert measuring.report("html").startswith("<!doctype html>")
    assert "one round" in last["noise"], "so it looks where no interval has a width"
    (sweep,) = last["sweeps"]
    assert sweep["figure"]["data"]


def test_rows_come_while_it_runs_and_what_was_stopped_goes_on(measuring: Measuring) -> None:
    def stop() -> None:
        if Fake.asked == 7:
            measuring.stop("owner")

    Fake.at_question = stop
    measuring.start(ORDER, QUESTIONS, "owner")
    last = ended(measuring)
    assert (last["phase"], last["done"]) == ("paused", 7), "the answer in flight is kept"
    assert {row["lane"] for row in last["rows"]} == {"autoregressive", "draft-model k=2", "draft-model k=4"}
    assert last["paused"]["lanes"] == ["draft-model k=2|4"]
    with pytest.raises(UserError, match="when a benchmark is finished"):
        measuring.report("json")

    again = Measuring(measuring.bench, measuring.home)  # the page was started anew
    assert again.paused() == ORDER
    again.start(Order(["medusa"]), None, "owner")  # what was begun decides
    last = ended(again)
    assert (last["phase"], last["done"], last["order"]["lanes"]) == ("done", 24, ["draft-model k=2|4"])
    assert Fake.asked == 24, "nothing is measured twice"

    later = Measuring(measuring.bench, measuring.home)
    assert next(later.watch("anybody"))["rows"] == last["rows"], "a finished benchmark is still there"
    assert len(later.samples()[0]) == 24


def test_what_is_begun_afresh_forgets_the_old(measuring: Measuring) -> None:
    Fake.at_question = lambda: measuring.stop("owner")
    measuring.start(ORDER, QUESTIONS, "owner")
    assert ended(measuring)["phase"] == "paused"
    Fake.at_question = None
    measuring.start(Order(["medusa"], rounds=1, limit=1, max_new_tokens=4), None, "owner", afresh=True)
    last = ended(measuring)
    assert (last["phase"], last["of"]) == ("done", 4), "two lanes, the built-in questions' two categories"


def test_one_job_at_a_time_also_of_other_kinds(measuring: Measuring) -> None:
    jobs, looked = Jobs(), Event()
    busy = Measuring(measuring.bench, measuring.home, jobs)
    Fake.at_question = lambda: looked.wait(60)
    busy.start(ORDER, QUESTIONS, "owner")
    with pytest.raises(UserError, match="benchmark of built-in runs, and one such job"):
        busy.start(ORDER, QUESTIONS, "other", afresh=True)
    with pytest.raises(UserError, match="benchmark of built-in runs"):
        jobs.start("training", "Heads are trained", "other", lambda: lambda: None, pytest.fail)
    looked.set()
    assert ended(busy)["phase"] == "done"


def test_time_that_is_over_is_told_and_what_there_is_stays(measuring: Measuring) -> None:
    measuring.limits = replace(measuring.limits, minutes=-1)
    measuring.start(ORDER, QUESTIONS, "owner")
    last = ended(measuring)
    assert (last["phase"], last["out_of_time"]) == ("paused", True)


def test_strangers_are_held_to_limits(measuring: Measuring) -> None:
    strangers = Measuring(replace(measuring.bench, allow_local=False), measuring.home)
    assert strangers.limits == STRANGERS
    tight = Measuring(measuring.bench, measuring.home, limits=BenchLimits(2, 4, 8, 3, 1))
    tight.start(ORDER, QUESTIONS, "owner")
    ended(tight)
    for one, said in (
        (replace(ORDER, rounds=3), "3 rounds"),
        (replace(ORDER, questions=""), "40 questions"),
        (replace(ORDER, max_new_tokens=9), "9 tokens"),
        (replace(ORDER, lanes=["draft-model k=2|4|8"]), "4 lanes"),
    ):
        with pytest.raises(UserError, match=f"would be {said}.*Ask for fewer"):
            tight.start(one, QUESTIONS if one.questions else None, "owner")
    for lanes in (["vllm server=http://127.0.0.1:1"], ["no-such-thing"]):
        with pytest.raises(UserError, match="open to strangers"):
            strangers.start(replace(ORDER, lanes=lanes, limit=1), QUESTIONS, "owner")
    with pytest.raises(UserError, match="Files of this machine"):
        strangers.start(replace(ORDER, target="/etc/passwd"), QUESTIONS, "owner")


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ("", "mine.jsonl holds no question"),
        ("nonsense", "Line 1 of mine.jsonl is not JSON"),
        ('{"question_id": 1, "turns": []}', "Line 1 of mine.jsonl has no turns"),
        ("[" * 100_000, "Line 1 of mine.jsonl is not JSON"),
        ("x" * (LARGEST_FILE + 1), "at most"),
        ("\ud800", "no text"),
    ],
)
def test_files_that_are_no_questions_are_sentences(measuring: Measuring, questions: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as told:
        measuring.start(ORDER, questions, "owner")
    assert str(measuring.home.parent) not in str(told.value), "no paths of this machine"
    assert not measuring.home.exists(), "nothing is changed by what is refused"


def test_a_benchmark_that_breaks_is_told(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise UserError("The model is too large.")

    Fake.at_question = fail
    measuring.start(ORDER, QUESTIONS, "owner")
    last = ended(measuring)
    assert (last["phase"], last["error"]) == ("failed", "The model is too large.")
    assert last["paused"], "it can be gone on with"


def test_there_are_three_reports_and_no_other_files(measuring: Measuring) -> None:
    for name in ("../order.json", "/etc/passwd", "", "pdf"):
        with pytest.raises(UserError, match="no such report"):
            measuring.report(name)


def test_the_room_s_order() -> None:
    lanes = [{"method": "draft-model", "settings": {"k": 7}}, {"method": "medusa", "settings": {}}]
    models = ["built-in", None, None, None]
    order, text, afresh = read_order({"rounds": 2, "limit": None, "drop": True}, lanes, models)
    assert order.lanes == ["draft-model k=7", "medusa"]
    assert (order.rounds, order.limit, order.hopeless, text, afresh) == (2, None, 0.8, None, False)
    order, text, _ = read_order({"lanes": " medusa \n\n", "name": "q", "text": "{}"}, lanes, models)
    assert (order.lanes, order.questions, text) == (["medusa"], "q", "{}")


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        "x",
        {"rounds": 0},
        {"rounds": 1.5},
        {"rounds": None},
        {"limit": -1},
        {"length": 1e300},
        {"lanes": 3},
        {"name": "q"},
        {"unknown": 1},
        {"lanes": "draft-model k=" + "|".join("1" * 65)},
        {"lanes": "draft-model k=1|2|3|4|5|6|7|8 confidence=1|2|3|4|5|6|7|8|9"},
        {"lanes": "x" * 201},
        {"lanes": "medusa\n" * 65},
    ],
)
def test_orders_that_cannot_be_read_are_sentences(asked: object) -> None:
    with pytest.raises(UserError):
        read_order(asked, [{"method": "medusa", "settings": {}}], ["built-in", None, None, None])


@pytest.mark.parametrize("lanes", [None, 3, [{"method": "x"}], [{"method": "medusa", "settings": {"tree": "a b"}}]])
def test_lanes_of_the_form_that_are_none_are_sentences(lanes: object) -> None:
    with pytest.raises(UserError):
        form_lanes(lanes)
    assert typed_lanes("") == []
