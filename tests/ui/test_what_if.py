"""The what-if panel: it starts from what was measured, and says so where nothing was."""

from __future__ import annotations

import pytest

from playground.analysis.report import Row, Speedup
from playground.analysis.speed_model import chain_speedup, chain_tokens
from playground.errors import UserError
from playground.ui.what_if import BATCHES, what_if

PLAIN = Row("autoregressive", "overall", 2, 50.0, {}, 1.0, None, None, [], {"draft": 0.0, "forward": 1.0, "other": 0.0})
# A step of 0.03 s: a third goes into two guesses, a quarter of a plain pass each, the rest into one plain pass.
DRAFT = Row(
    "draft-model k=2",
    "overall",
    2,
    2.25 / 0.03,
    {"autoregressive": Speedup(1.5, 1.4, 1.6)},
    2.25,
    2.25,
    0.625,
    [0.75, 0.5],
    {"draft": 1 / 3, "forward": 2 / 3, "other": 0.0},
)


def test_without_a_measured_lane_it_says_so_and_follows_the_papers() -> None:
    told = what_if({"kind": "chain"}, [], [], None)
    assert (told["start"], told["cost"], told["seen"]) == ("nothing", "free", None)
    values = told["values"]
    assert told["tokens"] == pytest.approx(chain_tokens(values["alpha"], values["k"]))
    assert told["speedup"] == pytest.approx(chain_speedup(values["alpha"], values["k"], values["draft_cost"]))
    assert dict(told["across"])[values["k"]] == pytest.approx(told["speedup"])
    assert [batch for batch, _ in told["by_batch"]] == list(BATCHES)


def test_a_lane_s_row_is_where_it_starts() -> None:
    told = what_if({"lane": "draft-model k=2"}, [], [PLAIN, DRAFT], None)
    assert (told["kind"], told["start"], told["cost"], told["seen"]) == ("chain", "row", "lane", 1.5)
    assert told["values"]["k"] == 2
    assert chain_tokens(told["values"]["alpha"], 2) == pytest.approx(2.25), "the measured acceptance length"
    assert told["values"]["draft_cost"] == pytest.approx(0.25)
    assert told["speedup"] == pytest.approx(1.5), "what was measured, as it is made of what was measured"


def test_changes_are_taken_up() -> None:
    before = what_if({"lane": "draft-model k=2"}, [], [PLAIN, DRAFT], None)
    after = what_if({"lane": "draft-model k=2", "changed": {"alpha": 0.95, "batch": 4}}, [], [PLAIN, DRAFT], None)
    assert after["values"]["alpha"] == 0.95
    assert after["values"]["batch"] == 4
    assert after["tokens"] > before["tokens"]


def test_a_lane_that_is_not_there_is_no_lane() -> None:
    assert what_if({"lane": "medusa"}, [], [PLAIN, DRAFT], None)["start"] == "nothing"
    assert what_if({"lane": "autoregressive", "kind": "tree"}, [], [PLAIN, DRAFT], None)["kind"] == "tree"
    assert what_if({"kind": "lookahead"}, [], [], None)["values"]["window"] == 7


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {"kind": "x"},
        {"lane": 3},
        {"changed": {"alpha": 2}},
        {"changed": {"alpha": -1}},
        {"changed": {"alpha": "1"}},
        {"changed": {"k": 1.5}},
        {"changed": {"k": 1e9}},
        {"changed": {"__class__": 1}},
        {"changed": {"nodes": 3}},
        {"changed": {"batch": 0}},
    ],
)
def test_what_cannot_be_is_a_sentence(asked: object) -> None:
    with pytest.raises(UserError):
        what_if(asked, [], [], None)
