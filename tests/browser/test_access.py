"""What axe-core finds wrong with the page for those who do not see it, or see it otherwise."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import wait_for_head
from tests.ui import traces

pytestmark = pytest.mark.browser

# Figures are drawn anew after the window or the room has changed.
FITTED = """() => [...document.querySelectorAll('.stage .chart')].every(
    (chart) => chart.scrollWidth <= chart.clientWidth || chart.tabIndex === 0)"""


def findings(page):
    """Serious and critical findings, as lines that say what is wrong and where."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']} {[node['target'] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_room_has_a_serious_fault(open_page, dark):
    page = open_page(dark=dark)
    wait_for_head(page, len(traces.race().order))
    rooms = page.eval_on_selector_all(".rooms [data-room]", "all => all.map((one) => one.dataset.room)")
    assert len(rooms) >= 4
    wrong = {}
    for room in rooms:
        page.click(f".rooms [data-room={room}]")
        page.wait_for_function("room => document.body.dataset.room === room", arg=room)
        page.wait_for_function(FITTED)
        if found := findings(page):
            wrong[room] = found
    assert wrong == {}
