"""Every word of the page in every language: nothing missing, nothing superfluous, every blank where it belongs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from playground.analysis.advisor import published
from playground.lessons.recordings import read_recordings
from playground.lessons.writing import LANGUAGES
from playground.models.catalog import PROJECT, load_catalog
from playground.models.store import ModelStore
from playground.run import lane_kinds
from playground.ui.components import BROWSER, head
from playground.ui.page import FIRST_TRACE, build_page
from playground.ui.recordings import read_recording

OTHERS = [language for language in LANGUAGES if language != "en"]
BLANK = re.compile(r"\{\w+\}")
# Names: they are the same in every language.
NAMES = {"vLLM", "SGLang", "transformers", "TGI", "llama.cpp", "float32", "bfloat16", "float16"}
FROM_JAVASCRIPT = {"true", "false", "queue: {}/{} |"}  # the value of a setting, as text; where a run waits, by Gradio

Tables = dict[str, dict[str, dict[str, str]]]


@pytest.fixture(scope="session")
def tables(in_node) -> Tables:
    return in_node("result = { words: words.TABLES, phrases: phrases.PHRASES, names: languages.LANGUAGES };", None)


def test_page_and_lessons_have_the_same_languages(tables):
    assert list(tables["words"]) == list(tables["phrases"]) == list(tables["names"]) == list(LANGUAGES)


@pytest.mark.parametrize("language", OTHERS)
def test_every_word_is_there_and_no_other(tables, language):
    english, table = tables["words"]["en"], tables["words"][language]
    assert set(english) - set(table) == set(), "missing"
    assert set(table) - set(english) == set(), "superfluous"


@pytest.mark.parametrize("language", OTHERS)
def test_translations_have_the_blanks_of_the_english_text(tables, language):
    pairs = [(english, tables["words"][language][key]) for key, english in tables["words"]["en"].items()]
    for english, translated in [*pairs, *tables["phrases"][language].items()]:
        assert set(BLANK.findall(translated)) == set(BLANK.findall(english)), english


@pytest.mark.parametrize("language", OTHERS)
def test_sentences_are_translated(tables, language):
    """A text of four words or more that is the English one was copied."""
    pairs = [(english, tables["words"][language][key]) for key, english in tables["words"]["en"].items()]
    for english, translated in [*pairs, *tables["phrases"][language].items()]:
        assert bool(translated) == bool(english)
        assert len(re.findall(r"[a-z]{2,}", BLANK.sub("", english))) < 4 or translated != english, english


def test_no_word_is_given_twice():
    for path in [*BROWSER.glob("words_*.js"), *BROWSER.glob("phrases_*.js")]:
        keys = re.findall(r"^  ('(?:[^'\\]|\\.)*'|\"[^\"]*\"|\w+):", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(keys) == len({key.strip("'\"") for key in keys}), path.name


@pytest.fixture(scope="session")
def of_python() -> set[str]:
    """The English texts that Python hands to the page, with what it puts into them as {}."""
    texts = {*_controls(), *_settings(), *_said(), *_advised()}
    texts |= {recording.title for recording in read_recordings().values()} | {read_recording(FIRST_TRACE).title}
    return {text for text in texts if re.search("[A-Za-z]", text)} - NAMES


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_of_python_is_translated(in_node, tables, language, of_python):
    ids = {family.title for family in load_catalog().families.values()} | set(load_catalog().families)
    keys = {BLANK.sub("{}", key) for key in tables["phrases"][language]}
    known = {*keys, *(ids - {"Built in"})}
    parts = {part for text in of_python - known for part in text.split(" · ")} - known
    body = "result = given.texts.filter((text) => phrases.translator(phrases.PHRASES[given.language])(text) === text);"
    assert in_node(body, {"texts": sorted(parts), "language": language}) == []


@pytest.mark.parametrize("language", OTHERS)
def test_no_phrase_is_superfluous(tables, language, of_python):
    literals = {BLANK.sub("{}", text) for text in _literals(PROJECT / "playground")}
    texts = {*literals, *of_python, *FROM_JAVASCRIPT}
    written = {part for text in texts for part in (text, text.strip("*"), *text.split(" · "))}
    keys = {BLANK.sub("{}", key) for key in tables["phrases"][language]}
    ends = [text for text in written if text.startswith(", ")]  # f"{…}{", on this machine"}"
    assert {key for key in keys - written if not any(key.endswith(end) for end in ends)} == set()


def test_a_phrase_is_found_by_its_pattern_and_in_lists(in_node):
    body = """
    const table = { 'on {place}': 'em {place}', laptop: 'notebook', 'Built in': 'Embutido', 'a; b': 'x' };
    result = given.map(phrases.translator(table));
    """
    texts = ["on laptop", "Built in · built-in · laptop", "a; b", "laptop; Built in", "Nothing of it", "on $& laptop"]
    told = ["em notebook", "Embutido · built-in · notebook", "x", "notebook; Embutido", "Nothing of it", "em $& laptop"]
    assert in_node(body, texts) == told


def test_the_language_is_chosen_by_the_first_that_there_is(in_node):
    asked = [["zh-CN", "pt-BR"], [None, "pt-PT"], ["fr", "ZH"], ["fr"], [], ["constructor", "en-GB"]]
    chosen = ["zh-CN", "pt-BR", "zh-CN", "en", "en", "en"]
    assert in_node("result = given.map(languages.choose);", asked) == chosen


def test_the_words_stand_in_the_page_once():
    assert head().count("</script") == 1
    components = build_page(ModelStore(limit=0)).get_config_file()["components"]
    scripts = [found for part in components if (found := part["props"].get("js_on_load")) and "module_" in found]
    assert len(scripts) > 4
    for table in ("words_en", "words_pt_br", "phrases_zh_cn"):
        assert head().count(f"const module_{table} =") == 1
        assert not any(f"const module_{table} =" in script for script in scripts)


def _controls() -> Iterator[str]:
    """Labels, hints, buttons and choices of everything that Gradio draws."""
    for part in build_page(ModelStore(limit=0)).get_config_file()["components"]:
        kind, props = part["type"], part["props"]
        if kind == "api":
            continue
        yield from (props[name] for name in ("label", "info", "placeholder") if props.get(name))
        if kind in ("button", "markdown"):
            yield props.get("value") or ""
        if kind == "html" and "module_" not in (props.get("js_on_load") or ""):
            yield from re.findall(r">([^<]+)<", props.get("value") or "")
        yield from (label for label, _ in props.get("choices") or [])


def _settings() -> Iterator[str]:
    for kind in lane_kinds().values():
        yield from (kind.title, kind.summary)
        for setting in kind.settings:
            yield from (setting.name.replace("_", " "), setting.help, *setting.choices)


def _said() -> Iterator[str]:
    """Notices of the page, and what drafters and acceptance rules say of their steps."""
    for path in _sources(PROJECT / "playground" / "ui"):
        for call in _calls(path, "notice"):
            if getattr(call.args[0], "value", "") in ("progress", "done"):
                yield from _texts(call.args[1])
    for path in _sources(PROJECT / "playground" / "drafters"):
        for call in _calls(path, "Proposal"):
            for keyword in call.keywords:
                if keyword.arg in ("reason", "source"):
                    yield from _texts(keyword.value)


def _advised() -> Iterator[str]:
    """The reasons of the advisor, their blanks as {}, and what its table says of methods."""
    for call in _calls(PROJECT / "playground" / "analysis" / "advisor.py", "Reason"):
        yield from (BLANK.sub("{}", text) for node in ast.walk(call.args[0]) for text in _texts(node))
    for known in published().values():
        yield from (known.training, known.extra)


def _literals(folder: Path) -> Iterator[str]:
    for path in _sources(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield from _texts(node)


def _sources(folder: Path) -> Iterable[Path]:
    return sorted(folder.rglob("*.py"))


def _calls(path: Path, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
            yield node


def _texts(node: ast.AST) -> Iterator[str]:
    """A text as it is written, with {} where a value is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
