"""The panel of exports and the lanes of servers, on the real page."""

from __future__ import annotations

import pytest

from playground.remote.servers import HOSTS
from tests.browser.conftest import open_trace
from tests.remote.fault_server import stream
from tests.remote.replies import TOKENS, serving
from tests.ui import traces

pytestmark = pytest.mark.browser

ENDED = "document.querySelector('.stage').view().log.end"
SAYS = "(words) => document.querySelector('#deploy-export').innerText.includes(words)"


def test_the_panel_follows_the_lane_in_focus_and_translates(open_page, tmp_path):
    page = open_page()
    trace = traces.race()
    trace.lanes[1].models = {"target": "smollm2-1.7b", "draft": "smollm2-135m"}
    open_trace(page, trace, tmp_path)
    page.click("#deploy > button")
    page.wait_for_function(SAYS, arg="Lane 2, Draft model")
    page.keyboard.press("1")
    page.wait_for_function(SAYS, arg="Lane 1, Autoregressive")
    page.click("#deploy label:has-text('SGLang')")
    page.wait_for_function(SAYS, arg="sglang.launch_server")
    page.fill("#deploy-old textarea", "vllm serve big --speculative-model [ngram] --num-speculative-tokens 5")
    page.click("#deploy-translate")
    page.wait_for_selector("#deploy-new td:has-text('num_speculative_tokens')")
    page.click(".rooms button[data-room=step]")
    assert page.locator("#deploy").is_hidden()


def test_roles_of_a_server_reach_the_page_when_its_reply_has_ended(open_page, engine, monkeypatch):
    engine.trace = traces.served(settled=False)
    monkeypatch.setattr(engine, "live", lambda: traces.become(engine.trace, traces.served()), raising=False)
    page = open_page()
    page.click("#run")
    page.wait_for_function(f"document.querySelector('.stage').view().log.live && {ENDED} === 'done'")
    page.wait_for_selector(".lane.lane-2 .token.bonus")
    marks = page.eval_on_selector_all(".lane.lane-2 .tokens .token", "all => all.map((one) => one.classList[1])")
    assert marks == ["plain", "accepted", "accepted", "bonus", "plain"]
    assert "67 %" in page.inner_text(".lane.lane-2 .figures")


def test_stop_reaches_a_server_that_has_fallen_silent(open_page, address, monkeypatch):
    with serving(stream(*TOKENS[:2], "hang")) as server:
        monkeypatch.setenv(HOSTS, server.url.removeprefix("http://"))
        page = open_page()
        page.goto(f"{address}?prompt=Once&lane=vllm;server={server.url}")
        page.wait_for_function("document.querySelector('.lane-form.lane-1 select.method')?.value === 'vllm'")
        page.click("#run")
        page.wait_for_selector(".lane.lane-1 .token.unknown")
        assert not server.client_gone.is_set()
        page.click("#stop")
        assert server.client_gone.wait(20)
        assert page.inner_text(".lane.lane-1 .lane-title").endswith(server.url.removeprefix("http://"))
