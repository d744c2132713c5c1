"""The measuring commands as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from playground.cli import app
from playground.errors import UserError

RUN = CliRunner()


def test_bench_writes_its_report(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question_id": 1, "category": "story", "turns": ["Once upon a time"]}\n')
    out = tmp_path / "out"
    options = ["--questions", str(questions), "--out", str(out), "--lane", "prompt-lookup k=3", "--rounds", "1"]
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
    ],
)
def test_mistakes_are_sentences(typed: list[str], says: str) -> None:
    done = RUN.invoke(app, typed)
    assert isinstance(done.exception, UserError)
    with pytest.raises(UserError, match=says):
        raise done.exception
