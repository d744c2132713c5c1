"""Runs started on the page: what is sent to the engine, how steps arrive, and how a run is stopped."""

from __future__ import annotations

import pytest

from playground.errors import UserError
from playground.run import lane_kinds
from playground.ui import page as page_module
from playground.ui.components import describe
from tests.browser.conftest import head, open_trace
from tests.ui import traces

pytestmark = pytest.mark.browser

LIVE = "document.querySelector('.stage').view().log.live"
ENDED = "document.querySelector('.stage').view().log.end"


def test_a_run_streams_to_the_stage(open_page, engine):
    page = open_page()
    page.click("#run")
    page.wait_for_function(f"{LIVE} && {ENDED} === 'done'")
    assert page.inner_text("[data-part=badge]") == "Live run"
    assert head(page) == len(engine.trace.order)
    assert page.evaluate("document.querySelector('.stage').view().log.lost") == 0
    assert engine.closed.wait(5)
    assert page.locator("#stop").is_hidden()


def test_a_second_run_replaces_the_first(open_page, engine):
    page = open_page()
    for title in ("one", "two"):
        engine.trace.title = title
        page.click("#run")
        page.wait_for_function(f"document.querySelector('.stage').view().log.title === '{title}' && {ENDED} === 'done'")
        assert head(page) == len(engine.trace.order)


def test_stop_ends_the_run_and_no_step_comes_after(open_page, engine):
    engine.trace.order *= 40
    engine.pause = 0.03
    page = open_page()
    page.click("#run")
    page.wait_for_function(f"{LIVE} && document.querySelector('.stage').view().head > 5")
    page.click("#stop")
    page.wait_for_function(f"{ENDED} === 'stopped'")
    shown = head(page)
    assert engine.closed.wait(10)
    taken = engine.taken
    page.wait_for_timeout(500)
    assert head(page) == shown
    assert engine.taken == taken < len(engine.trace.order)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("at => document.querySelector('.stage').view().head < at", arg=shown)


def test_who_has_to_wait_sees_the_place_in_the_queue_and_may_leave_it(open_page, engine):
    engine.trace.order *= 400
    engine.pause = 0.05
    *computing, first, last = [open_page(query=f"lang={'pt-BR' if at else 'en'}") for at in range(4)]
    for page in computing:
        page.click("#run")
        page.wait_for_function(LIVE)
    first.click("#run")
    first.wait_for_selector("#queue .progress-text:has-text('fila: 1/1 |')")
    last.click("#run")
    last.wait_for_selector("#queue .progress-text:has-text('fila: 2/2 |')")
    assert not last.evaluate(LIVE)
    first.click("#stop")
    first.wait_for_selector("#queue", state="hidden")
    computing[0].click("#stop")
    last.wait_for_function(LIVE)
    last.wait_for_selector("#queue", state="hidden")
    for page in (computing[1], last):
        page.click("#stop")
        page.wait_for_function(f"{ENDED} === 'stopped'")
    first.wait_for_timeout(500)  # what Gradio says of a run that was stopped comes after it
    assert not first.evaluate(LIVE), "who left the queue has no run"
    for page in (*computing, first, last):
        page.wait_for_selector(".notice", state="hidden")


def test_what_gradio_says_late_of_a_stopped_run_is_not_taken_for_the_next(open_page, engine):
    engine.trace.order *= 400
    engine.pause = 0.05
    page = open_page()

    def tell(command: str) -> None:
        page.evaluate("detail => window.dispatchEvent(new CustomEvent('stage', { detail }))", command)

    tell("ask")
    tell("stop")
    assert page.evaluate("document.body.classList.contains('stopping')"), "a click on Run would go nowhere now"
    tell("fail")
    assert not page.evaluate("document.body.classList.contains('stopping')")
    tell("ask")
    tell("fail")
    page.wait_for_selector(".notice:has-text('Asked for a run')")
    tell("stop")
    tell("fail")
    page.click("#run")
    page.wait_for_function(f"{LIVE} && !{ENDED}")
    tell("fail")
    page.wait_for_selector(".notice:has-text('The server broke off the run')")
    assert page.evaluate(ENDED) == "stopped"


def test_a_trace_opened_in_the_middle_of_a_run_is_no_failure_of_it(open_page, engine, tmp_path):
    engine.trace.order *= 400
    engine.pause = 0.05
    page = open_page()
    page.evaluate(
        """() => new MutationObserver(() => window.said = [window.said, document.querySelector('.notice').textContent])
            .observe(document.querySelector('.notice'), { childList: true, characterData: true, subtree: true })"""
    )
    page.click("#run")
    page.wait_for_function(f"{LIVE} && document.querySelector('.stage').view().head > 5")
    open_trace(page, traces.race(), tmp_path)
    assert engine.closed.wait(20)
    assert page.inner_text("[data-part=badge]") == "Recorded run"
    page.wait_for_timeout(300)
    assert "broke" not in str(page.evaluate("window.said"))


def test_closing_the_tab_ends_the_run(open_page, engine):
    engine.trace.order *= 40
    engine.pause = 0.03
    page = open_page()
    page.click("#run")
    page.wait_for_function(LIVE)
    page.close()
    assert engine.closed.wait(20)
    assert engine.taken < len(engine.trace.order)


def test_pausing_a_live_run_holds_the_view_and_following_catches_up(open_page, engine):
    engine.trace.order *= 8
    engine.pause = 0.03
    page = open_page()
    page.click("#run")
    page.wait_for_function(f"{LIVE} && document.querySelector('.stage').view().head > 5")
    page.keyboard.press(" ")
    held = head(page)
    page.wait_for_function(f"document.querySelector('.stage').view().log.order.length > {held} + 10")
    assert head(page) == held
    page.click("[data-action=follow]")
    page.wait_for_function(f"{ENDED} === 'done'")
    assert head(page) == len(engine.trace.order)


def test_what_cannot_be_run_is_a_sentence_and_the_stage_keeps_its_run(open_page, engine, monkeypatch):
    def refuse(*_):
        raise UserError("The prompt is empty. Write at least one character to continue from.")

    monkeypatch.setattr(page_module, "open_run", refuse)
    page = open_page()
    page.click("#run")
    page.wait_for_selector(".notice.error")
    assert page.inner_text(".notice").startswith("The prompt is empty.")
    assert head(page) == len(traces.race().order)
    assert page.inner_text("[data-part=badge]") == "Recorded run"


def test_a_setting_out_of_range_is_a_sentence(open_page, engine):
    page = open_page()
    page.fill(".lane-form.lane-2 [name=k]", "0")
    page.click("#run")
    page.wait_for_selector(".notice.error")
    assert "k is 0; it must be a whole number from 1 to 64" in page.inner_text(".notice")
    assert engine.specs == []


def test_the_form_reaches_the_engine(open_page, engine):
    page = open_page()
    page.fill("#prompt textarea", "Once upon")
    page.fill(".lane-form.lane-2 [name=k]", "7")
    page.click("[aria-label='Duplicate lane 2']")
    page.fill(".lane-form.lane-3 [name=k]", "2")
    page.click("[aria-label='Remove lane 1']")
    page.select_option(".lane-form.lane-2 select.method", "prompt-lookup")
    page.fill("#sampling input >> nth=1", "0.7")
    page.keyboard.press("Tab")
    page.click("#run")
    page.wait_for_function(f"{LIVE} && {ENDED} === 'done'")
    (spec,) = engine.specs
    assert spec.prompt == "Once upon"
    assert [lane.method for lane in spec.lanes] == ["draft-model", "prompt-lookup"]
    assert spec.lanes[0].settings["k"] == 7
    assert spec.temperature == 0.7


def test_named_models_and_the_system_prompt_reach_the_engine(open_page, engine):
    page = open_page()
    page.fill("#models input", "me/target")
    page.keyboard.press("Enter")
    page.click("#other-models > button")
    page.fill("#heads input, #heads textarea", "me/heads")
    page.click("#more > button")
    page.fill("#system textarea", "Answer in rhymes.")
    page.keyboard.press("Tab")
    page.click("#run")
    page.wait_for_function(f"{LIVE} && {ENDED} === 'done'")
    (spec,) = engine.specs
    assert spec.system == "Answer in rhymes."
    assert {(lane.target, lane.draft, lane.heads) for lane in spec.lanes} == {("me/target", None, "me/heads")}


def test_an_example_fills_the_prompt(open_page):
    page = open_page()
    page.click("#examples button:has-text('Code')")
    page.wait_for_function("document.querySelector('#prompt textarea').value.startsWith('def ')")


SETTINGS = (
    """all => all.map(({ name, type, min, max, value, checked }) => ({ name, type, min, max, value, checked }))"""
)
TYPES = {"int": "number", "float": "number", "choice": "select-one", "bool": "checkbox", "text": "text"}


def test_every_setting_of_every_method_has_its_control(open_page):
    page = open_page()
    for method in lane_kinds().values():
        page.select_option(".lane-form.lane-1 select.method", method.id)
        shown = page.eval_on_selector_all(".lane-form.lane-1 .settings [name]", SETTINGS)
        declared = describe(method)["settings"]
        assert [one["name"] for one in shown] == [setting["name"] for setting in declared]
        for one, setting in zip(shown, declared, strict=True):
            assert one["type"] == TYPES[setting["kind"]]
            if setting["kind"] in ("int", "float"):
                assert [float(one["min"]), float(one["max"])] == [setting["minimum"], setting["maximum"]]
                assert float(one["value"]) == setting["default"]
            else:
                assert one["checked" if setting["kind"] == "bool" else "value"] == setting["default"]


def test_a_lane_can_be_added_up_to_four(open_page):
    page = open_page()
    for count in (3, 4):
        page.click(".add-lane")
        assert page.locator(".lane-form").count() == count
    assert page.locator(".add-lane").is_disabled()
    assert page.inner_text(".add-lane") == "4 lanes are the most"
    methods = page.eval_on_selector_all(".lane-form select.method", "all => all.map((one) => one.value)")
    assert len(set(methods)) == 4


def test_a_browser_that_may_keep_nothing_shows_the_page_all_the_same(chromium, address, engine):
    refused = "{ get() { throw new DOMException('no', 'SecurityError'); } }"
    context = chromium.new_context()
    for place in ("localStorage", "sessionStorage"):
        context.add_init_script(f"Object.defineProperty(window, '{place}', {refused});")
    page = context.new_page()
    page.goto(address)
    page.click("#run")
    page.wait_for_function(f"{ENDED} === 'done' && {LIVE}")
    page.click("[data-part=theme]")
    page.wait_for_selector("body.dark", state="attached")
    page.reload()
    page.wait_for_function("document.querySelector('.stage')?.view?.().log.run")
    context.close()
