"""The page as it is shipped, on the built-in models: nothing is downloaded and nothing is stood in for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from playground.models.store import ModelStore
from playground.ui import page as page_module
from tests.browser.conftest import head
from tests.serving import served

pytestmark = pytest.mark.browser

ENDED = "document.querySelector('.stage').view().log.live && document.querySelector('.stage').view().log.end"
TEXTS = """() => document.querySelector('.stage').view().log.lanes.map(({ tracks }) =>
    tracks[0].steps.flatMap((step) => step.emitted).map((token) => token.text).join(''))"""


@pytest.fixture(scope="module")
def store() -> ModelStore:
    return ModelStore()


@pytest.fixture(scope="module")
def address(store) -> Iterator[str]:
    with served(page_module.build_page(store)) as address:
        yield address


def test_first_paint_is_a_recorded_run_and_loads_no_model(open_page, store):
    before = store.resident()
    page = open_page(still=False)
    assert page.inner_text("[data-part=badge]") == "Recorded run"
    page.wait_for_function("document.querySelector('.stage').view().head > 0")
    assert page.inner_text("[data-part=facts]")
    assert store.resident() == before


def test_two_real_lanes_race_and_write_the_same_text(open_page, store):
    page = open_page()
    page.fill("#sampling input >> nth=0", "24")
    page.keyboard.press("Tab")
    page.click("#run")
    page.wait_for_function(ENDED, timeout=120_000)
    assert page.evaluate(ENDED) == "done"
    one, other = page.evaluate(TEXTS)
    assert one == other != ""
    statuses = page.eval_on_selector_all(".lane-2 .tokens .token", "all => all.map((one) => one.classList[1])")
    assert {"accepted", "corrected"} & set(statuses)
    assert all(resident.leases == 0 for resident in store.resident())


def test_stop_frees_the_models_and_no_step_comes_after(open_page, store):
    page = open_page()
    page.fill("#sampling input >> nth=0", "400")
    page.keyboard.press("Tab")
    page.click("#run")
    page.wait_for_function(
        "document.querySelector('.stage').view().log.live && document.querySelector('.stage').view().head > 3"
    )
    page.click("#stop")
    page.wait_for_function(ENDED)
    shown = head(page)
    page.wait_for_timeout(1000)
    assert head(page) == shown
    assert page.evaluate(ENDED) == "stopped"
    for _ in range(100):
        if all(resident.leases == 0 for resident in store.resident()):
            break
        page.wait_for_timeout(100)
    assert [resident.leases for resident in store.resident()] == [0, 0]


def test_what_is_in_memory_is_shown_after_a_run(open_page, store):
    store.evict()
    page = open_page()
    page.wait_for_selector("#resident >> text=No model is in memory.")
    page.fill("#sampling input >> nth=0", "4")
    page.keyboard.press("Tab")
    page.click("#run")
    page.wait_for_selector("#resident >> text=built-in-draft")
    assert "float32" in page.inner_text("#resident")


def test_a_draft_is_found_and_chosen(open_page, store):
    page = open_page()
    page.click("#other-models > button")
    page.click("#find-drafts")
    page.wait_for_selector("#drafts td >> text=built-in-draft")
    page.click("#draft input")
    page.click("[role=option] >> text=built-in-small-target")
    page.wait_for_function("document.querySelector('#draft input').value.startsWith('built-in-small-target')")


def test_a_fetch_ends_with_a_sentence_and_the_page_goes_on(open_page):
    page = open_page()
    page.fill("#models input", "/no/such/folder")
    page.keyboard.press("Enter")
    page.click("#fetch")
    page.wait_for_selector(".notice.error >> text=There is no folder /no/such/folder.")
    page.fill("#models input", "built-in-target")
    page.keyboard.press("Enter")
    page.click("#fetch")
    page.wait_for_selector(".notice.done >> text=On this machine: built-in-target.")
    assert page.locator("#run").is_enabled()


def test_next_tokens_drawn_through_the_method_fit_the_target(open_page, store):
    page = open_page()
    page.click("nav [data-room=step]")
    page.click(".proof button")
    page.wait_for_selector(".proof .fits", timeout=120_000)
    assert all(resident.leases == 0 for resident in store.resident())
