"""The measuring of the page: what it replays, what it tells, and what it says when it cannot measure."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from playground.errors import UserError
from playground.ui import bench
from tests.ui import traces


@pytest.mark.parametrize("tokens", [1, 9, 100])
def test_a_replay_goes_on_until_every_lane_has_its_tokens_and_no_step_is_the_last(tokens):
    recorded = traces.race()
    order = bench.lengthened(recorded, tokens)
    for lane in range(len(recorded.lanes)):
        steps = [step for at, step in order if at == lane]
        written = [len(step.emitted) for step in steps]
        assert sum(written) >= tokens > sum(written[:-1])
        assert [step.index for step in steps] == list(range(len(steps)))
        once = recorded.steps(lane)
        assert all(step.emitted == once[at % len(once)].emitted for at, step in enumerate(steps))
    assert {step.finish for _, step in order} == {None}
    assert recorded.steps(1)[-1].finish == "length"  # the recorded run is left as it was


def test_the_sentence_of_a_run_has_its_figures():
    shown = bench.Shown([10, 20, 30], [16, 17, 300], [], [], sent=5, arrived=4, lost=1)
    said = shown.sentence()
    assert all(part in said for part in ("4 of 5 steps", "1 messages lost", "lag 20 ms", "the longest 300 ms"))
    assert "clicks" not in said
    shown.clicks = [7]
    assert "clicks wait 7 ms" in shown.sentence()


def test_without_playwright_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(UserError, match="pip install"), bench._chromium():
        pass


def apart(work):
    """Do `work` in a thread of its own: Playwright allows one browser per thread, and other tests keep theirs open."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(work).result()


def test_without_chromium_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.shutil, "which", lambda name: str(tmp_path / name))

    def start():
        with bench._chromium():
            pass

    with pytest.raises(UserError, match="needs Chromium"):
        apart(start)


@pytest.mark.browser
def test_every_step_of_a_replay_reaches_the_page_and_every_message_has_a_lag():
    race = bench.Race(recorded=traces.race())

    def replay():
        with bench._chromium() as page, bench._served(race) as address:
            page.goto(address)
            page.wait_for_function("window.Plotly && document.querySelector('.stage')?.view")
            for tokens, clicks in ((20, False), (300, True)):
                shown = bench._run(page, race, tokens, clicks)
                assert shown.sent == shown.arrived == len(bench.lengthened(traces.race(), tokens))
                assert shown.lost == 0
                assert len(shown.lags) == len(race.handed_out) > 2
                assert min(shown.lags) > 0
                assert bool(shown.clicks) == clicks

    apart(replay)
