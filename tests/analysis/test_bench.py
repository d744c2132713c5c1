"""A benchmark on the built-in models, small but whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from playground.analysis.bench import Plan, each_setting, measure, parse_lane
from playground.analysis.benchmark import read_samples
from playground.decoding.trace import summarize
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, open_run


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "questions.jsonl"
    lines = [
        {"question_id": 1, "category": "story", "turns": ["Once upon a time", "And then"]},
        {"question_id": 2, "category": "code", "turns": ["def main():\n"]},
        {"question_id": 3, "category": "code", "turns": ["left out by the limit"]},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lanes = ("draft-model k=3", "prompt-lookup")
    return Plan(file, lanes, reference=True, rounds=2, limit=1, max_new_tokens=12)


def test_the_report_says_what_the_runs_did(plan: Plan, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = measure(plan, out)
    assert (out / "report.md").read_text() == told
    assert (out / "report.html").read_text().count("<table>") == 3
    rows = {(row["lane"], row["category"]): row for row in json.loads((out / "report.json").read_text())["rows"]}
    lanes = (
        "autoregressive",
        "draft-model k=3",
        "prompt-lookup",
        "transformers generate",
        "transformers assisted k=3",
        "transformers prompt lookup k=5",
    )
    assert set(rows) == {(lane, category) for lane in lanes for category in ("overall", "story", "code")}
    for lane in lanes[1:]:
        assert rows[lane, "overall"]["identity"] == {"same": 3}, "greedy in float32: the ids of plain decoding"
        assert rows[lane, "overall"]["speedups"]["autoregressive"]["median"] > 0

    spec = RunSpec("def main():\n", (LaneSpec("draft-model", {"k": 3}),), max_new_tokens=12)
    with open_run(spec, ModelStore()) as run:
        for _ in run:
            pass
        summary = summarize(run.trace.steps(0))
    row = rows["draft-model k=3", "code"]
    assert row["acceptance_rate"] == summary.draft_acceptance_rate
    assert row["acceptance_length"] == summary.mean_acceptance_length
    assert row["tokens_per_pass"] == summary.tokens_per_target_pass

    # transformers reads the prompt in its first pass, we in one of its own; the rest are the same verifications
    ours, theirs = (
        sum(answer.passes for one in read_samples(out / "samples.jsonl") if one.lane == lane for answer in one.answers)
        for lane in ("draft-model k=3", "transformers assisted k=3")
    )
    assert ours - theirs == 2 * 3

    before = (out / "samples.jsonl").read_text()
    assert measure(plan, out) == told, "nothing is measured twice"
    assert (out / "samples.jsonl").read_text() == before


def test_what_is_wrong_is_told_before_any_work(plan: Plan, tmp_path: Path) -> None:
    out = tmp_path / "out"
    wrong = {
        "no method called": replace(plan, lanes=("nothing",)),
        "not of the form": replace(plan, lanes=("draft-model k",)),
        "k is '0'|k is 0": replace(plan, lanes=("draft-model k=0",)),
        "comes without": replace(plan, target="smollm2-135m", lanes=("draft-model",)),
        "rounds is 0": replace(plan, rounds=0),
        "limit is 0": replace(plan, limit=0),
        "cannot be read": replace(plan, questions=tmp_path / "absent"),
    }
    for says, one in wrong.items():
        with pytest.raises(UserError, match=says):
            measure(one, out)
        assert not out.exists()
    out.mkdir()
    (out / "plan.json").write_text(json.dumps({"questions": "others"}))
    with pytest.raises(UserError, match=r"another .*questions"):
        measure(plan, out)


def test_a_lane_is_named_by_what_was_asked(plan: Plan) -> None:
    name, lane = parse_lane("medusa  acceptance=typical", plan)
    assert name == "medusa acceptance=typical"
    assert lane.settings["acceptance"] == "typical"
    assert lane.target == "built-in"


def test_a_sweep_is_a_lane_per_setting() -> None:
    assert each_setting("draft-model k=2|4 confidence=0|0.3") == [
        "draft-model k=2 confidence=0",
        "draft-model k=2 confidence=0.3",
        "draft-model k=4 confidence=0",
        "draft-model k=4 confidence=0.3",
    ]
    assert each_setting("autoregressive") == ["autoregressive"]
    assert each_setting("medusa tree=[[0],[0,0]]") == ["medusa tree=[[0],[0,0]]"]
    assert each_setting("draft-model k") == ["draft-model k"]
