"""The measuring commands as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from playground.analysis.commands import TimeLeft
from playground.cli import app
from playground.errors import UserError

RUN = CliRunner()


def test_bench_writes_its_report(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question_id": 1, "category": "story", "turns": ["Once upon a time"]}\n')
    out = tmp_path / "out"
    options = ["--questions", str(questions), "--out", str(out), "--lane", "prompt-lookup k=3", "--rounds", "1"]
    options += ["--curve", "0"]
    done = RUN.invoke(app, ["bench", *options, "--max-new-tokens", "6"])
    assert done.exception is None
    assert "| prompt-lookup k=3 |" in done.stdout
    assert {file.name for file in out.iterdir()} == {
        "plan.json",
        "samples.jsonl",
        "report.json",
        "report.md",
        "report.html",
    }
    advice = RUN.invoke(app, ["advise", "--target", "7", "--measured", str(out / "report.json")])
    assert advice.exception is None
    assert "[measured here]" in advice.stdout


def test_advice_without_a_measurement() -> None:
    done = RUN.invoke(app, ["advise", "--target", "70", "--draft", "7"])
    assert done.stdout.startswith("Use Draft model: --method draft-model --set k=")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["bench"], "Say what to ask"),
        (["bench", "--questions", "/no/such/file"], "cannot be read"),
        (["advise", "--target", "0"], "billions of parameters"),
        (["advise", "--target", "7", "--measured", "/no/such/file"], r"report\.json"),
        (["batch-curve", "--sizes", "1,x"], "whole numbers"),
        (["cost-curve", "--seconds", "0"], "--seconds is 0"),
        (["cost-curve", "--models", "smollm2-135m", "--draft"], "comes without a draft model"),
        (["cost-curve", "--models", "/no/such/model"], "no/such/model"),
        (["tune", "--questions", "/no/such/file"], "cannot be read"),
        (["tune", "--minutes", "0"], "The time is 0 minutes"),
        (["tune", "--out", "/no/such/folder/settings.toml"], "cannot be written"),
    ],
)
def test_mistakes_are_sentences(typed: list[str], says: str) -> None:
    done = RUN.invoke(app, typed)
    assert isinstance(done.exception, UserError)
    with pytest.raises(UserError, match=says):
        raise done.exception


def test_cost_curve_prints_a_table_and_writes_a_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path / "cache"))
    chart = tmp_path / "chart.html"
    done = RUN.invoke(app, ["cost-curve", "--draft", "--seconds", "0.01", "--html", str(chart)])
    assert done.exception is None
    assert done.stdout.count("Memory limit:") == 2
    assert "Plotly.newPlot" in chart.read_text()


def test_the_time_left_follows_the_pace_since_the_start() -> None:
    times = iter((100.0, 110.0, 400.0))
    clock = TimeLeft(lambda: next(times))
    assert clock.left(None) == ""
    assert clock.left(0.5) == "", "a benchmark that goes on: nothing is known of its pace yet"
    assert clock.left(0.6) == ", about 40 s left,"
    assert clock.left(0.8) == ", about 3 min left,"
