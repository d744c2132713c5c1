"""How soon the page shows what a run yields, measured in Chromium on the real stage.

A message's lag runs from the moment the server hands it out to the frame after the one that drew it, on the clock of
this machine, which server and browser share. Replays hand out the steps of a recorded race as fast as they are taken.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from secrets import token_hex
from statistics import median, quantiles
from typing import TYPE_CHECKING

import gradio as gr
import torch

from playground.decoding.trace import Step, Trace
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.run import LaneSpec, Run, RunSpec, open_run
from playground.ui import api, wire
from playground.ui.components import make_header, make_stage
from playground.ui.page import serve
from playground.ui.player import player

if TYPE_CHECKING:
    from playwright.sync_api import Page

METHODS = ("autoregressive", "draft-model", "medusa", "lookahead")
PROMPT = "The lighthouse had been dark for eleven winters when Mara climbed the stairs. At the top she found"
TOKENS = 64
LONG_TOKENS = 2000
REPLAYS = 20
HEAP_AFTER = 3  # replays before the heap is first looked at
WINDOW = (1440, 1000)

Steps = Iterable[tuple[int, Step]]

# Notes when each message's drawing has reached the screen, the time between frames and between two drawings of a
# figure that a run moves, and how long a click waits.
PROBE = """() => {
    const stage = document.querySelector('.stage');
    const probe = (window.probe = { shown: [], gaps: [], figures: [], clicks: [] });
    const chart = stage.querySelector('[data-part=pace]');
    let run = stage.view().log.run, seq = 0, before = performance.now(), drawing = before, at = null;
    const frame = (now) => {
        if (probe !== window.probe) return;
        const { log } = stage.view();
        if (log.run !== run) {
            const drawn = log.seq;
            requestAnimationFrame(() => {
                for (; seq < drawn; seq += 1) probe.shown[seq] = performance.timeOrigin + performance.now();
            });
            probe.gaps.push(now - before);
            if (chart.dataset.head !== at) {
                if (at !== null && log.order.length) probe.figures.push(now - drawing);
                [at, drawing] = [chart.dataset.head, now];
            }
        }
        before = now;
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    window.onpointerdown = ({ timeStamp }) => window.probe.clicks.push(performance.now() - timeStamp);
}"""
# The run has ended, and every figure that can be seen shows its end.
SETTLED = """run => {
    const { log } = document.querySelector('.stage').view();
    if (log.run === run || !log.end) return false;
    const charts = [...document.querySelectorAll('.stage .chart')].filter((one) => one.offsetParent);
    return charts.every((one) => one.dataset.head === String(log.order.length));
}"""
TOLD = """async () => {
    for (let frames = 3; frames; frames -= 1) await new Promise(requestAnimationFrame);
    const { log } = document.querySelector('.stage').view();
    return { ...window.probe, arrived: log.order.length, lost: log.lost, run: log.run };
}"""
JUMP = """(key) => new Promise((done) => {
    const began = performance.now();
    document.querySelector('.stage').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
})"""


@dataclass
class Race:
    """The race that is measured: live on the built-in models, or again from what was recorded of it."""

    store: ModelStore = field(default_factory=ModelStore)
    recorded: Trace | None = None
    tokens: int = 0  # per lane of the next run; 0 runs live
    handed_out: list[float] = field(default_factory=list)  # when each message was, in milliseconds since 1970
    steps: int = 0

    def stream(self) -> Iterator[str]:
        """What the page is sent, with the moment of each message noted."""
        trace, steps = self._live() if self.recorded is None or not self.tokens else self._again(self.recorded)
        self.handed_out, self.steps = [], 0
        for message in wire.stream(trace, self._counted(steps), token_hex(4)):
            self.handed_out.append(1000 * time.time())
            yield message

    def _live(self) -> tuple[Trace, Steps]:
        lanes = tuple(LaneSpec(method) for method in METHODS)
        run = open_run(RunSpec(PROMPT, lanes, max_new_tokens=TOKENS, detail=True), self.store)
        self.recorded = run.trace
        return run.trace, _closing(run)

    def _again(self, recorded: Trace) -> tuple[Trace, Steps]:
        """The recorded steps over and over, until every lane has its tokens."""
        return recorded, lengthened(recorded, self.tokens)

    def _counted(self, steps: Steps) -> Iterator[tuple[int, Step]]:
        for step in steps:
            self.steps += 1
            yield step


def _closing(run: Run) -> Iterator[tuple[int, Step]]:
    with run:
        yield from run


def lengthened(trace: Trace, tokens: int) -> list[tuple[int, Step]]:
    """The steps of a trace again and again, until every lane has at least `tokens` tokens; none of them is the last."""
    written, made = [0] * len(trace.lanes), [0] * len(trace.lanes)
    order: list[tuple[int, Step]] = []
    while min(written) < tokens:
        for lane, step in trace.order:
            if written[lane] < tokens:
                order.append((lane, replace(step, index=made[lane], finish=None)))
                made[lane] += 1
                written[lane] += len(step.emitted)
    return order


@dataclass
class Shown:
    """What the browser told of a run: lags, times between frames and between drawings, waits of clicks; all in ms."""

    lags: list[float]
    gaps: list[float]
    figures: list[float]
    clicks: list[float]
    sent: int
    arrived: int
    lost: int

    def sentence(self) -> str:
        """The figures of the run in a line."""
        told = [
            f"{self.arrived} of {self.sent} steps arrived, {self.lost} messages lost",
            f"lag {_spread(self.lags)} over {len(self.lags)} messages",
            f"frames every {_spread(self.gaps)}, the longest {max(self.gaps):.0f} ms",
        ]
        if self.figures:
            told.append(f"figures every {_spread(self.figures)}")
        if self.clicks:
            told.append(f"clicks wait {_spread(self.clicks)}")
        return "; ".join(told)


def measure_page(tell: Callable[[str], None]) -> None:
    """Measure the page and tell every figure as soon as it is known. UserError: Playwright or Chromium is missing."""
    torch.set_num_threads(1)
    race = Race()
    with _chromium() as page, _served(race) as address:
        browser = page.context.browser
        tell(f"Chromium {browser.version if browser else ''} in a window of {WINDOW[0]} x {WINDOW[1]}")
        page.goto(address)
        page.wait_for_function("window.Plotly && document.querySelector('.stage')?.view")
        tell(f"live, {len(METHODS)} lanes of {TOKENS} tokens, torch on one thread: {_run(page, race, 0).sentence()}")
        _tell_replays(page, race, tell)
        long = _run(page, race, LONG_TOKENS, clicks=True)
        tell(f"{len(METHODS)} lanes of {LONG_TOKENS} tokens at full speed: {long.sentence()}")
        jumps = [page.evaluate(JUMP, key) for key in ("Home", "End") * 3]
        tell(f"a jump from one end of them to the other: {_spread(jumps)}")


def _tell_replays(page: Page, race: Race, tell: Callable[[str], None]) -> None:
    devtools = page.context.new_cdp_session(page)
    shown: list[Shown] = []
    heap: dict[int, float] = {}
    for count in range(1, REPLAYS + 1):
        shown.append(_run(page, race, TOKENS))
        if count in (HEAP_AFTER, REPLAYS):
            devtools.send("HeapProfiler.collectGarbage")
            heap[count] = devtools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    every = Shown(
        lags=[lag for one in shown for lag in one.lags],
        gaps=[gap for one in shown for gap in one.gaps],
        figures=[gap for one in shown for gap in one.figures],
        clicks=[],
        sent=sum(one.sent for one in shown),
        arrived=sum(one.arrived for one in shown),
        lost=sum(one.lost for one in shown),
    )
    tell(f"{REPLAYS} replays of that at full speed: {every.sentence()}")
    early, late = heap[HEAP_AFTER], heap[REPLAYS]
    tell(f"heap after {HEAP_AFTER} and {REPLAYS} replays: {early:.1f} and {late:.1f} MB ({late / early - 1:+.0%})")


def _run(page: Page, race: Race, tokens: int, clicks: bool = False) -> Shown:
    """One run, until every figure shows its end."""
    race.tokens = tokens
    before = page.evaluate("document.querySelector('.stage').view().log.run")
    page.evaluate(PROBE)
    page.evaluate("document.getElementById('run').click()")
    while clicks and page.evaluate("run => document.querySelector('.stage').view().log.run === run", before):
        time.sleep(0.02)
    while clicks and not page.evaluate(SETTLED, before):
        page.mouse.click(2, 2)
        time.sleep(0.1)
    page.wait_for_function(SETTLED, arg=before, timeout=300_000)
    told = page.evaluate(TOLD)
    lags = [shown - sent for shown, sent in zip(told["shown"], race.handed_out, strict=True)]
    return Shown(lags, told["gaps"], told["figures"], told["clicks"], race.steps, told["arrived"], told["lost"])


@contextmanager
def _served(race: Race) -> Iterator[str]:
    """The stage alone, with a button that starts the race; its address."""
    page = api.Page(analytics_enabled=False)
    with page:
        make_header()
        start = gr.Button("Run", elem_id="run")
        stage = make_stage(None, player)
        start.click(race.stream, None, stage, show_progress="hidden", api_visibility="private")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        yield serve(page, "127.0.0.1", port, wait=False)
    finally:
        page.close()


@contextmanager
def _chromium() -> Iterator[Page]:
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError as error:
        raise UserError(
            "Measuring the page needs Playwright, which is not installed: pip install -r requirements-dev.txt."
        ) from error
    found = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error as error:
            raise UserError(
                "Measuring the page needs Chromium, which did not start. Install it: python -m playwright install "
                "chromium, or with the system's packages."
            ) from error
        try:
            yield browser.new_page(viewport={"width": WINDOW[0], "height": WINDOW[1]})
        finally:
            browser.close()


def _spread(values: list[float]) -> str:
    """Median and 95th percentile, in milliseconds."""
    high = quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
    return f"{median(values):.0f} ms (95 %: {high:.0f})"
