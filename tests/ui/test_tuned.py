"""A page that is started with a settings file begins with its settings, and says so."""

from __future__ import annotations

from pathlib import Path

import gradio as gr
import pytest
from typer.testing import CliRunner

from playground.analysis.tuned import Tuned, TunedMethod, write_tuned
from playground.cli import app
from playground.errors import UserError
from playground.methods import METHODS
from playground.models.catalog import load_catalog
from playground.ui.form import make_form
from playground.ui.tuned import VARIABLE, tuned_settings, with_defaults

METHOD = TunedMethod({"k": 7}, 1.3, 1.2, 1.5, 1.25, 2.5)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "settings.toml"
    write_tuned(Tuned("<this> machine", "built-in", "float32", "q.jsonl", "2026", {"draft-model": METHOD}), file)
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def test_the_form_begins_with_tuned_settings_and_says_so(file: Path) -> None:
    with gr.Blocks() as page:
        form = make_form(load_catalog())
    assert [lane["settings"].get("k") for lane in form.lanes.value] == [None, 7]
    notes = [block.value for block in page.blocks.values() if block.elem_id == "tuned"]
    assert len(notes) == 1
    assert "&lt;this&gt; machine" in notes[0]
    kinds = {kind.id: kind.check({}) for kind in with_defaults(METHODS.values(), tuned_settings())}
    assert kinds["draft-model"]["k"] == 7
    assert kinds["prompt-lookup"] == METHODS["prompt-lookup"].check({})
    assert METHODS["draft-model"].check({})["k"] == 4, "the command line's defaults stay"


def test_without_a_file_the_form_is_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with gr.Blocks() as page:
        form = make_form(load_catalog())
    assert form.lanes.value[1]["settings"]["k"] == 4
    assert not [block for block in page.blocks.values() if block.elem_id == "tuned"]


def test_a_wrong_file_is_a_sentence_before_the_page_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    done = CliRunner().invoke(app, ["serve", "--settings", str(tmp_path / "absent.toml")])
    assert isinstance(done.exception, UserError)
    assert "cannot be read" in str(done.exception)
