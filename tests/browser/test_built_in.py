"""The page as it is shipped, on the built-in models: nothing is downloaded and nothing is stood in for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from playground.models.store import ModelStore
from playground.ui import page as page_module
from tests.browser.conftest import head, served

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
    statuses = page.eval_on_selector_all(".lane-2 .token", "all => all.map((one) => one.classList[1])")
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
