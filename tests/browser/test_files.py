"""What a visitor takes away and brings back: a page that plays from disk, a link, a server's reply."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from playground.decoding.trace import read_trace
from playground.ui.player import export
from tests.browser.conftest import choose_file, wait_for_head
from tests.ui import traces

pytestmark = pytest.mark.browser

REPLY = Path(__file__).parents[1] / "remote" / "data" / "stream.sse"
HELD = re.compile(r'<script type="application/jsonl" id="trace">(.*?)</script>', re.DOTALL)
READY = "document.querySelector('.stage')?.view?.().log.run"


@pytest.fixture
def open_file(chromium):
    """Open a file in a window of its own, without a network. What it asks for, says or fails at is looked at."""
    contexts, wrong = [], []

    def open_file(path):
        context = chromium.new_context(offline=True, reduced_motion="reduce", viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda asked: wrong.append(asked.url) if asked.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_function(READY)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert wrong == []


def test_an_exported_run_plays_from_disk_and_asks_for_nothing(open_file, tmp_path):
    trace = traces.race()
    file = tmp_path / "run.html"
    file.write_text(export(trace), encoding="utf-8")
    page = open_file(file)
    wait_for_head(page, len(trace.order))
    page.wait_for_function("document.querySelectorAll('.charts .js-plotly-plot, .charts .chart')[0]?.data")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    wait_for_head(page, 2)
    assert "4 tokens were proposed, 1 accepted" in page.inner_text("[data-part=story]")
    page.click("[data-part=theme]")
    assert "dark" in page.get_attribute("body", "class")
    page.click(".rooms [data-room=step]")
    page.wait_for_selector(".one-step .places")


def test_hostile_tokens_stay_text_in_an_exported_run(open_file, tmp_path):
    trace = traces.awkward()
    file = tmp_path / "run.html"
    file.write_text(export(trace), encoding="utf-8")
    page = open_file(file)
    wait_for_head(page, len(trace.order))
    shown = page.evaluate("""() => {
        const copy = document.querySelector('.tokens').cloneNode(true);
        copy.querySelectorAll('.newline, .rejected').forEach((mark) => mark.remove());
        return copy.textContent;
    }""")
    written = "".join(token.text for step in trace.steps(0) for token in step.emitted)
    assert shown == written.replace("\u202e", "‹202E›")
    assert page.locator("main :is(img, script)").count() == 0
    assert page.locator("script").count() == 3


def test_the_page_saves_the_file_that_python_exports(open_page, open_file, tmp_path):
    page = open_page()
    with page.expect_download() as download:
        page.click("#export")
    file = tmp_path / "saved.html"
    download.value.save_as(file)
    (held,) = HELD.findall(file.read_text(encoding="utf-8"))
    assert read_trace(held.strip().split("\n")) == traces.race()
    assert HELD.sub("", file.read_text(encoding="utf-8")) == HELD.sub("", export(traces.race()))
    saved = open_file(file)
    wait_for_head(saved, len(traces.race().order))


def test_a_link_brings_the_form_back(open_page):
    page = open_page()
    page.fill("#prompt textarea", 'Say "hi" & <b>bye</b>\n100 % #sure; ok?')
    page.select_option(".lane-form.lane-1 select.method", "medusa")
    page.select_option(".lane-form.lane-1 [name=acceptance]", "typical")
    page.fill(".lane-form.lane-2 [name=k]", "7")
    page.click("[aria-label='Duplicate lane 2']")
    page.fill("#sampling input >> nth=1", "0.7")
    page.fill("#sampling input >> nth=2", "42")
    page.keyboard.press("Tab")
    page.click("#copy-link")
    page.wait_for_function("document.querySelector('#link textarea, #link input')?.value.startsWith('http')")
    link = page.input_value("#link textarea, #link input")
    look = """() => [
        ...[...document.querySelectorAll('#prompt textarea, #sampling input')].map((one) => one.value),
        ...[...document.querySelectorAll('.lane-form :is(select, input)')].map((it) => [it.name, it.value, it.checked]),
    ]"""
    before = page.evaluate(look)
    page = open_page(query=link.partition("?")[2])
    page.wait_for_function("document.querySelectorAll('.lane-form').length === 3")
    assert page.inner_text(".notice") == "The link filled in the form. Press Run to make its run."
    assert page.evaluate(look) == before


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("lane=telepathy", "This link cannot be used: There is no method called 'telepathy'"),
        ("seed=<img src=x onerror=alert(1)>", "seed is '<img src=x onerror=alert(1)>'; it must be a number"),
        ("prompt=" + "x" * 7000, "more than 6,000 characters"),
    ],
)
def test_a_hostile_link_is_a_sentence_and_the_page_works(open_page, query, said):
    page = open_page(query=query)
    page.wait_for_selector(".notice.error")
    assert said in page.inner_text(".notice")
    wait_for_head(page, len(traces.race().order))
    assert page.locator(".stage img").count() == 0
    assert page.locator(".lane-form").count() == 2


def test_a_stored_reply_opens_like_a_trace_and_invents_nothing(open_page):
    page = open_page()
    run = page.evaluate(READY)
    choose_file(page, REPLY)
    page.wait_for_function(f"{READY} !== '{run}'")
    wait_for_head(page, 4)
    marked = page.eval_on_selector_all(".lane .tokens .token", "all => all.map((one) => one.classList[1])")
    assert marked == ["plain", *["accepted"] * 4, "bonus", *["accepted"] * 4, "bonus", *["accepted"] * 4, "bonus"]
    assert "The server counted 4 proposed tokens in this step and 4 accepted" in page.inner_text("[data-part=story]")
    assert "greedy" not in page.inner_text("[data-part=made]")
    assert page.inner_text(".lane .figures dd >> nth=0") == "–"
