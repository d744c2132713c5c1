"""The browser code's own tests under Node, and what it shares with Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from playground.decoding.trace import Status
from playground.methods import METHODS
from playground.ui.components import BROWSER, bundle, stylesheet

ENTRIES = ("lane_editor", "header", "proof", "train", "measure", "advise", "lessons", "player", "translate")
APART = (*ENTRIES, "measure_table", "measure_figures", "what_if", "room")  # of which the stage has none


def test_node_tests(node):
    files = sorted(str(path) for path in (Path(__file__).parent / "node").glob("*.test.mjs"))
    done = subprocess.run([node, "--test", *files], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_statuses_have_the_order_of_the_enum(in_node):
    assert in_node("result = statuses.STATUSES;", None) == [str(status) for status in Status]


@pytest.mark.parametrize("entry", ["stage", *ENTRIES])
def test_the_bundle_is_one_script_that_parses(node, entry, tmp_path):
    script = tmp_path / "bundle.js"
    script.write_text(bundle(entry), encoding="utf-8")
    done = subprocess.run([node, "--check", script], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


def test_the_bundle_has_each_module_once_and_after_what_it_needs():
    whole = bundle("stage")
    for path in BROWSER.glob("*.js"):
        assert whole.count(f"const module_{path.stem} =") == (path.stem not in APART)
    assert whole.index("const module_log ") < whole.index("const module_playhead ") < whole.index("const module_stage ")
    assert "\nimport " not in whole
    assert "\nexport " not in whole


def test_markup_is_safe_in_gradio_s_templates():
    for path in BROWSER.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not any(mark in text for mark in ("`", "${", "{{", "@children")), path.name


def test_every_status_has_its_colour_in_both_themes():
    light, dark = stylesheet().split(".dark .stage {")[:2]
    for status in Status:
        assert f"--{status}: #" in light
        assert f"--{status}: #" in dark


def test_every_text_of_the_stage_is_used():
    words = (BROWSER / "words_en.js").read_text(encoding="utf-8")
    keys = set(re.findall(r"^  '?([\w.-]+)'?:", words, re.MULTILINE))
    sources = [path for path in BROWSER.iterdir() if path.suffix in (".js", ".html") and "words_" not in path.name]
    used = set(re.findall(r"[\w-]+", " ".join(path.read_text(encoding="utf-8") for path in sources)))
    used |= {"eos", "stop", "length", "context", "done", "failed", "one"}  # these come with the data
    used |= {"shared-head", "linear", "sampled", "draft_heads"}  # and these
    used |= {"rule-of-thumb", "formula", "published", "measured-here"}
    used |= {setting.name for kind in METHODS.values() for setting in kind.settings}
    assert {key for key in keys if not set(key.split(".")) <= used} == set()


def test_every_setting_of_a_method_has_words(in_node):
    names = sorted({setting.name for kind in METHODS.values() for setting in kind.settings})
    body = "result = given.filter((name) => !(`setting.${name}` in words.TABLES.en));"
    assert in_node(body, names) == []
