"""The Advise room: what it answers, what it takes into the race, and sentences for what it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from playground.analysis.advisor import published
from playground.analysis.bench import Bench
from playground.analysis.report import Row, Speedup, to_json
from playground.errors import UserError
from playground.methods import METHODS
from playground.models.catalog import load_catalog
from playground.models.store import ModelStore
from playground.ui.advise import advised_lanes, give_advice
from playground.ui.measuring import Measuring, Order

BUILT_IN = ["built-in", None, None, None]


@pytest.fixture
def measuring(tmp_path: Path) -> Measuring:
    return Measuring(Bench(ModelStore(limit=0)), tmp_path)


def measured(folder: Path) -> Measuring:
    """A finished benchmark in which prompt lookup was twice as fast."""
    row = Row(
        "prompt-lookup k=7", "overall", 4, 100.0, {"autoregressive": Speedup(2.0, 1.9, 2.1)}, 2.0, 2.0, 0.5, [0.5], {}
    )
    report = to_json([row], {"models": "a-model"})
    (folder / "report.json").write_text(json.dumps(report))
    (folder / "order.json").write_text(json.dumps({"lanes": ["prompt-lookup k=7"]}))
    (folder / "samples.jsonl").write_text("")
    return Measuring(Bench(ModelStore(limit=0)), folder)


def test_a_sibling_that_fits_is_the_answer_with_its_reasons(measuring: Measuring) -> None:
    told = give_advice({"target": 7, "draft": 0.7, "heads": False}, measuring)
    first = told["advice"][0]
    assert (first["method"], first["title"], first["uses"]) == ("draft-model", "Draft model", "draft")
    assert {one["evidence"] for one in first["reasons"]} == {"rule-of-thumb", "formula"}
    assert METHODS["draft-model"].check(first["settings"])
    assert told["measured_on"] == ""
    assert [row["title"] for row in told["table"]] == [METHODS[name].title for name in published()]
    assert all(row["measured"] is None and len(row["published"]) == 2 for row in told["table"])


def test_throughput_begins_with_sequences_that_share_a_pass(measuring: Measuring) -> None:
    first = give_advice({"target": 7, "throughput": True}, measuring)["advice"][0]
    assert first["method"] == "autoregressive"
    assert "share the passes" in first["reasons"][0]["text"]
    crowded = give_advice({"target": 7, "throughput": True, "batch": 4}, measuring)["advice"][0]
    assert "With {batch} sequences" in crowded["reasons"][0]["text"]
    assert crowded["reasons"][0]["values"] == {"batch": 4}


def test_what_was_measured_here_decides_and_is_named(tmp_path: Path) -> None:
    told = give_advice({"target": 7, "draft": 0.7}, measured(tmp_path))
    assert told["advice"][0]["method"] == "prompt-lookup"
    assert told["advice"][0]["reasons"][0]["evidence"] == "measured-here"
    assert told["measured_on"] == "a-model"
    (row,) = [row for row in told["table"] if row["measured"]]
    assert row["measured"] == {"speedup": 2.0, "lane": "prompt-lookup k=7"}
    assert Order(["prompt-lookup k=7"]) == measured(tmp_path)._order()


def test_advice_becomes_lanes_of_the_race_form() -> None:
    asked = {"method": "draft-model", "settings": {"k": 5}}
    lanes = advised_lanes(asked, BUILT_IN, load_catalog(), allow_local=False)
    assert [lane["method"] for lane in lanes] == ["autoregressive", "draft-model"]
    assert lanes[1]["settings"]["k"] == 5
    assert [lane["method"] for lane in advised_lanes({"method": "autoregressive"}, BUILT_IN, load_catalog(), True)] == [
        "autoregressive"
    ]


@pytest.mark.parametrize(
    "asked",
    [
        None,
        3,
        {},
        {"target": None},
        {"target": "7"},
        {"target": -1},
        {"target": 1e300},
        {"target": 7, "batch": 0},
        {"target": 7, "draft": 8},
        {"target": 7, "unknown": 1},
        {"target": 7, "batch": None},
    ],
)
def test_questions_that_cannot_be_are_sentences(asked: object, measuring: Measuring) -> None:
    with pytest.raises(UserError):
        give_advice(asked, measuring)


@pytest.mark.parametrize(
    ("asked", "models", "said"),
    [
        ({"method": "medusa"}, ["smollm2-360m", None, None, None], "comes without|no"),
        ({"method": "vllm"}, BUILT_IN, "no method called"),
        ({"method": "draft-model", "settings": {"k": 0}}, BUILT_IN, "k is 0"),
        ({"method": "draft-model", "settings": {"x": 1}}, BUILT_IN, "no setting called"),
        ({"method": "draft-model"}, ["/etc", None, None, None], "."),
        ({"method": 3}, BUILT_IN, "method"),
        (None, BUILT_IN, "The advice"),
    ],
)
def test_advice_that_cannot_be_taken_is_a_sentence(asked: object, models: list[str | None], said: str) -> None:
    with pytest.raises(UserError, match=said):
        advised_lanes(asked, models, load_catalog(), allow_local=False)
