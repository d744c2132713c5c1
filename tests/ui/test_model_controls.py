"""The tables beside the models: what is in memory, which drafts fit."""

from __future__ import annotations

from playground.models.drafts import Draft
from playground.models.pairing import Finding
from playground.models.store import Resident
from playground.ui.model_controls import draft_choices, draft_table, refusal, resident_table


def test_what_is_in_memory_is_listed_last_used_first():
    assert "No model is in memory" in resident_table([])
    table = resident_table(
        [
            Resident("old", "model", "float32", "cpu", 2_500_000, 0),
            Resident("new", "model", "bfloat16", "cuda:0", 14_200_000_000, 2),
        ]
    )
    assert "<td>new</td><td>bfloat16</td><td>cuda:0</td><td>14.2 GB</td><td>2</td>" in table
    assert "<td>2.5 MB</td><td>0</td>" in table
    assert table.index("new") < table.index("old")


def test_names_are_text_and_never_markup():
    hostile = "<img src=x onerror=alert(1)>"
    for html in (
        resident_table([Resident(hostile, "model", "float32", "cpu", 1, 0)]),
        draft_table([Draft(hostile, 0.2, ())]),
        refusal(ValueError(hostile)),
    ):
        assert "<img" not in html
        assert "&lt;img" in html


def test_drafts_are_shown_with_cost_and_findings_and_can_be_chosen():
    drafts = [Draft("small", 0.104, ()), Draft("middle", 0.5, (Finding("warning", "Expect little gain."),))]
    table = draft_table(drafts)
    assert "<td>small</td><td>10%</td><td>fits</td>" in table
    assert "<td>middle</td><td>50%</td><td>Expect little gain.</td>" in table
    assert [name for _, name in draft_choices(drafts)] == ["", "small", "middle"]
    assert "No model of the catalog" in draft_table([])
