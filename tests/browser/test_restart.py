"""The server goes and comes back while the page is open: the run on it stays, even where the page is loaded anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from playground.models.store import ModelStore
from playground.ui import page as page_module
from tests.browser.conftest import Engine
from tests.serving import free_port
from tests.ui import traces
from tests.ui.traces import write

pytestmark = pytest.mark.browser

LOG = "document.querySelector('.stage')?.view?.().log"
COUNT = f"{LOG}.order.length"
RESTORED = f"{LOG}?.run === 'last-run'"


def test_a_server_that_goes_in_the_middle_of_a_run_and_comes_back(
    chromium: Browser, engine: Engine, tmp_path: Path
) -> None:
    engine.trace.order *= 40
    engine.trace.title = "mine"
    engine.pause = 0.05
    first, port = write(traces.race(), tmp_path / "first.jsonl"), free_port()

    def serve() -> tuple[page_module.Page, str]:
        server = page_module.build_page(ModelStore(limit=0), first)
        return server, page_module.serve(server, "127.0.0.1", port, wait=False)

    server, address = serve()
    context = chromium.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.goto(address)
    page.wait_for_function(f"{LOG}?.run")
    page.click("#run")
    page.wait_for_function(f"{LOG}.live && {COUNT} > 8")
    server.close()
    page.wait_for_function(f"{LOG}.end")  # the page has seen it
    shown = page.evaluate(COUNT)
    assert shown > 8, "what had come stays on the stage"

    server, _ = serve()
    page.reload()
    page.wait_for_function(RESTORED)
    assert page.evaluate(COUNT) == shown
    assert page.evaluate(f"{LOG}.title") == "mine"
    assert page.evaluate("document.querySelector('.stage').view().head") == shown
    page.wait_for_selector(".notice:has-text('The page was loaded anew.')")
    page.reload()
    page.wait_for_function(RESTORED)
    page.goto(address)  # not a reload: the page as everybody sees it
    page.wait_for_function(f"{LOG}?.run && !({RESTORED})")

    engine.trace.order = traces.race().order
    page.click("#run")
    page.wait_for_function(f"{LOG}.live && {LOG}.end === 'done'")
    context.close()
    server.close()
