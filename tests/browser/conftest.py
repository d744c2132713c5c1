"""The real page in Chromium. Whatever a test does, nothing may leave the machine and the console stays clean."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from playground.decoding.trace import Step, Trace
from playground.jobs import Jobs
from playground.models.store import ModelStore
from playground.run import RunSpec
from playground.ui import page as page_module
from tests.serving import served
from tests.ui import traces
from tests.ui.traces import write

OpenPage = Callable[..., Page]


@dataclass
class Engine:
    """Stands in for the run that a model would make: hands out the steps of a trace, and tells what became of it."""

    trace: Trace
    pause: float = 0.0
    specs: list[RunSpec] = field(default_factory=list)
    taken: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    closed: threading.Event = field(default_factory=threading.Event)

    def open_run(self, spec: RunSpec, *_: object) -> Engine:
        self.specs.append(spec)
        self.taken = 0
        self.closed.clear()
        return self

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()

    def __iter__(self) -> Iterator[tuple[int, Step]]:
        for lane, step in self.trace.order:
            time.sleep(self.pause)
            self.taken += 1
            yield lane, step

    def live(self) -> Iterator[tuple[int, Step]]:
        return iter(self)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine(traces.race())
    monkeypatch.setattr(page_module, "open_run", engine.open_run)
    return engine


@pytest.fixture
def stop_heard(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a click on Stop has reached the server's job: only then may a test let the job go on."""
    stop, heard = Jobs.stop, threading.Event()

    def told(jobs: Jobs, kind: str, visitor: str) -> None:
        stop(jobs, kind, visitor)
        heard.set()

    monkeypatch.setattr(Jobs, "stop", told)
    return heard


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page is served. Its store has room for no model: a test that needed one would fail."""
    first = write(traces.race(), tmp_path_factory.mktemp("traces") / "first.jsonl")
    with served(page_module.build_page(ModelStore(limit=0), first)) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("The browser tests need Chromium: install it (Debian: apt-get install chromium).")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, address: str) -> Iterator[OpenPage]:
    """Open the page in a window of its own. At the end of the test its console and its requests are looked at."""
    pages: list[Page] = []
    wrong: list[str] = []

    def open_page(
        width: int = 1440, height: int = 900, dark: bool = False, still: bool = True, query: str = ""
    ) -> Page:
        motion = "reduce" if still else "no-preference"
        context = chromium.new_context(viewport={"width": width, "height": height}, reduced_motion=motion)
        page = context.new_page()
        pages.append(page)
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: _check_request(asked.url, address, wrong))
        page.goto(f"{address}?__theme={'dark' if dark else 'light'}&{query}")
        page.wait_for_selector("#run", state="attached")
        page.wait_for_function("document.querySelector('.stage')?.view?.().log.run")
        return page

    yield open_page
    for page in pages:
        page.context.close()
    assert wrong == []


def _check_request(url: str, address: str, wrong: list[str]) -> None:
    if not url.startswith((address, "data:", "blob:")):
        wrong.append(f"a request to {url}")


def head(page: Page) -> int:
    """The playhead's position."""
    return page.evaluate("document.querySelector('.stage').view().head")


def wait_for_head(page: Page, expected: int) -> None:
    """Wait until the playhead is at `expected` and the page has been drawn so: that comes a frame later."""
    page.wait_for_function("at => document.querySelector('.stage').view().head === at", arg=expected)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def choose_file(page: Page, file: Path) -> None:
    """Pick a file for "Open trace" the way a visitor does."""
    with page.expect_file_chooser() as chooser:
        page.click("text=Open trace")
    chooser.value.set_files(file)


def open_trace(page: Page, trace: Trace, folder: Path) -> None:
    """Load a trace file and wait until the stage shows it."""
    run = page.evaluate("document.querySelector('.stage').view().log.run")
    if not page.is_visible("text=Open trace"):
        page.click("#settings")
    choose_file(page, write(trace, folder / "trace.jsonl"))
    page.wait_for_function("old => document.querySelector('.stage').view().log.run !== old", arg=run)
