"""A benchmark on the built-in models, small but whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from playground.analysis.bench import BASELINE, Plan, _until, lane_run, measure, parse_lane
from playground.analysis.benchmark import Answer, Sample, read_samples
from playground.analysis.lane_text import baseline_for, each_setting, split_lane
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
    assert "Predicted and measured" not in told
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
        "until is 5; give a share": replace(plan, until=5.0),
        "minutes is 0": replace(plan, minutes=0.0),
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


def timed(*seconds: float, lane: str = "m") -> list[Sample]:
    """A lane and the baseline, which takes a second, in so many rounds."""
    answers = [
        (name, at, Answer([1], [2], "", took, 1))
        for at, s in enumerate(seconds)
        for name, took in ((lane, s), (BASELINE, 1.0))
    ]
    return [Sample(name, at, "1", "story", [answer]) for name, at, answer in answers]


def test_rounds_go_on_until_intervals_are_narrow_or_the_time_is_over(plan: Plan) -> None:
    asked = replace(plan, until=0.05, reference=False)
    more = _until(asked, float("inf"))
    assert more(timed(1.0, 1.0, 1.0, 1.0)), "so few rounds cannot tell"
    assert not more(timed(1.0, 1.02, 1.04, 1.06, 1.08))
    assert more(timed(1.0, 1.02, 1.04, 1.06, 1.2))
    assert not more(timed(1.0, 1.02, 1.04, 1.06, 1.2, 1.0, 1.0, 1.0, 1.0)), "what is far out counts less and less"
    assert not more([*timed(1.0, 1.0, 1.0, 1.0, 1.0), *timed(1.0, 2.0, lane="gave up")])
    assert not _until(asked, 0.0)(timed(1.0, 2.0)), "the time is over"
    assert not _until(replace(asked, until=0.0), float("inf"))(timed(1.0, 2.0))


def test_a_report_tells_the_intervals_wanted_and_what_lanes_say(plan: Plan, tmp_path: Path) -> None:
    asked = replace(plan, lanes=("medusa tree=65",), reference=False, rounds=1, until=0.05, minutes=1e-6)
    told = measure(replace(asked, max_new_tokens=4), tmp_path / "out")
    assert ", 1 round, at most" in told
    assert "intervals: at most ±5.0% wanted, one round cannot tell what was reached" in told
    assert "medusa tree=65: A tree of 65 nodes was asked for, but the heads' own tree has 64" in told


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


def test_a_batch_and_a_temperature_are_compared_with_plain_decoding_at_the_same(plan: Plan) -> None:
    assert baseline_for("medusa tree=auto temperature=0.7 batch=2", "autoregressive") == (
        "autoregressive batch=2 temperature=0.7"
    )
    assert split_lane("medusa tree=auto") == ("medusa", {"tree": "auto"})
    assert lane_run("draft-model temperature=0.7", plan).temperature == 0.7
    assert lane_run("draft-model k=2", plan).temperature == 0.0
    with pytest.raises(UserError, match="no number"):
        lane_run("draft-model temperature=hot", plan)
    _, lane = parse_lane("draft-model k=2 temperature=0.7", plan)
    assert lane.settings["k"] == 2


def test_a_sweep_with_a_prediction_is_in_all_three_reports(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "out"
    lanes = ("draft-model k=2|4", "prompt-lookup batch=2", "prompt-lookup temperature=1")
    told = measure(replace(plan, lanes=lanes, reference=False, rounds=1, max_new_tokens=8, curve=0.01), out)
    assert "## Settings" in told
    assert "draft-model, a lower k (2 instead of 4) accepted" in told
    assert "## Predicted and measured" in told
    report = json.loads((out / "report.json").read_text())
    assert {one["lane"] for one in report["speed_model"]["predictions"]} == {
        "draft-model k=2",
        "draft-model k=4",
        "prompt-lookup temperature=1",
    }
    assert [one["method"] for one in report["sweeps"]] == ["draft-model", "prompt-lookup"]
    rows = {row["lane"]: row for row in report["rows"] if row["category"] == "overall"}
    assert rows["prompt-lookup batch=2"]["identity"] == {}, "another sequence beside it: not compared id for id"
    assert rows["draft-model k=2"]["identity"] == {"same": 3}
    assert all(row["memory"] > 0 for row in rows.values())
    assert set(rows) >= {"autoregressive batch=2", "autoregressive temperature=1"}
    batch = next(one for one in read_samples(out / "samples.jsonl") if one.lane == "prompt-lookup batch=2")
    assert batch.tokens == 16 * len(batch.answers)
    assert (out / "report.html").read_text().count("Plotly.newPlot") >= 5
