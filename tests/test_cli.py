"""The command line as a user types it, in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from playground.decoding.trace import read_trace, summarize

PROJECT = Path(__file__).parents[1]


def playground(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "playground", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300)


def test_generate_prints_one_json_object_and_writes_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    done = playground(
        *("generate", "--models", "built-in", "--method", "draft-model", "--prompt", "Once upon a time"),
        *(
            "--max-new-tokens",
            "16",
            "--temperature",
            "0",
            "--seed",
            "1",
            "--set",
            "k=4",
            "--json",
            "--trace",
            str(file),
        ),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["output_token_ids"]) == 16
    assert result["settings"] == {"k": 4, "confidence": 0.0, "batch": 1}
    assert result["models"] == {"target": "built-in-target", "draft": "built-in-draft"}
    with file.open(encoding="utf-8") as lines:
        trace = read_trace(lines)
    steps = trace.steps(0)
    assert summarize(steps).output_token_ids == result["output_token_ids"]
    assert "".join(token.text for step in steps for token in step.emitted) == result["text"]
    assert trace.lanes[0].prompt_ids == result["prompt_token_ids"]
    assert any(step.detail for step in steps), "a trace carries the full detail"
    assert "Loading" in done.stderr


def test_a_mistake_loses_no_trace_and_a_run_replaces_it(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text("an older trace\n")
    wrong = playground("generate", "--prompt", "a", "--set", "k=0", "--trace", str(file))
    assert wrong.returncode == 2
    assert file.read_text() == "an older trace\n"
    right = playground("generate", "--prompt", "a", "--max-new-tokens", "2", "--trace", str(file))
    assert right.returncode == 0, right.stderr
    with file.open(encoding="utf-8") as lines:
        assert read_trace(lines).max_new_tokens == 2


def test_generate_prints_the_text_on_stdout_and_the_rest_on_stderr() -> None:
    plain = playground(
        "generate", "--method", "prompt-lookup", "--prompt", "one two one two one", "--max-new-tokens", "8"
    )
    assert plain.returncode == 0, plain.stderr
    assert "tokens/s" in plain.stderr
    assert "tokens/s" not in plain.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--prompt", ""), "The prompt is empty"),
        (("--prompt", "a", "--set", "k=0"), "k is 0; it must be a whole number from 1 to 64."),
        (("--prompt", "a", "--set", "k"), "not of the form name=value"),
        (("--prompt", "a", "--temperature", "nan"), "temperature is nan"),
        (("--prompt", "a", "--method", "magic"), "There is no method called 'magic'"),
        (("--prompt", "a", "--target", "./no-such-folder"), "no-such-folder"),
        (("--prompt", "a", "--trace", "/no/such/folder/run.jsonl"), "The trace cannot be written"),
        (("--prompt", "a", "--dtype", "float8"), "float8"),
    ],
)
def test_bad_input_ends_with_a_sentence_and_status_2(arguments: tuple[str, ...], sentence: str) -> None:
    done = playground("generate", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("where", [("--port", "99999"), ("--host", "no-such-host.invalid")])
def test_an_address_that_cannot_be_served_is_a_sentence(where: tuple[str, ...]) -> None:
    done = playground("serve", *where)
    assert done.returncode == 2
    assert "cannot be served" in done.stderr
    assert "Traceback" not in done.stderr


def test_output_that_takes_no_unicode_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = playground("methods")
    assert done.returncode == 0, done.stderr
    assert r"alpha\xb7exp(-entropy)" in done.stdout


def test_the_version_stands_in_pyproject_and_heads_the_changelog() -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert playground("--version").stdout == f"{version}\n"
    (newest, *_) = re.findall(r"^## (\S+) · ", (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest == version


def test_the_lists_name_every_method_and_family() -> None:
    methods = playground("methods")
    for name in ("autoregressive", "draft-model", "prompt-lookup", "medusa", "lookahead", "naive-batching"):
        assert name in methods.stdout
    models = playground("models")
    assert "built-in" in models.stdout
    assert "smollm2-135m" in models.stdout


def test_the_drafts_that_fit_are_listed_and_a_missing_target_is_a_sentence() -> None:
    assert playground("models", "drafts", "built-in").stdout.startswith("built-in-draft ")
    away = playground("models", "drafts", "nobody/has-this")
    assert (away.returncode, away.stdout) == (2, "")
    assert "nobody/has-this is not on this machine" in away.stderr


def test_export_writes_a_page_that_holds_the_trace(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    done = playground("export", "assets/lessons/traces/first.jsonl", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert '"format":"speculative-decoding-trace"' in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("export", "nowhere.jsonl", "out.html"), "nowhere.jsonl cannot be read: No such file or directory."),
        (("export", "README.md", "out.html"), "Line 1 of the trace is not a JSON object"),
        (("export", "assets/lessons/traces/first.jsonl", "no/such/folder/out.html"), "The page cannot be written to"),
        (("record-lessons", "nothing"), "There is no recording called 'nothing'. Recordings: first, copying"),
    ],
)
def test_bad_input_to_export_and_record_lessons_is_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = playground(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
