"""What a race says of its lanes: same text or not, how fast, in which place, and why."""

from __future__ import annotations

import pytest

from playground.decoding.trace import Trace, summarize
from playground.methods import METHODS
from tests.browser.conftest import open_trace, wait_for_head
from tests.ui import traces

pytestmark = pytest.mark.browser


def raced(*names: str, temperature: float = 0.0, **settings: object) -> Trace:
    """Real runs of methods on a table model, as one race: a step of each in turn."""
    sampling = {"temperature": temperature, "seed": 3}
    lanes, runs = [], []
    for name in names:
        promise = METHODS[name].promise(settings, temperature == 0)
        lanes.append(traces.lane(name, METHODS[name].title, sampling=sampling, lossless=promise, settings={}))
        runs.append(traces.of_method(name, temperature).steps(0))
    turns = range(max(map(len, runs)))
    order = [(lane, steps[at]) for at in turns for lane, steps in enumerate(runs) if at < len(steps)]
    return Trace(lanes, title="a race", order=order)


def said(page, lane: int, part: str) -> str:
    return page.inner_text(f".lane-{lane} .{part}")


def test_lanes_that_promise_the_same_ids_are_held_to_it(open_page, tmp_path):
    page, trace = open_page(), raced("autoregressive", "draft-model", "lookahead")
    open_trace(page, trace, tmp_path)
    wait_for_head(page, len(trace.order))
    total = len(summarize(trace.steps(0)).output_token_ids)
    assert said(page, 1, "verdict-badge") == "baseline"
    for lane in (2, 3):
        assert said(page, lane, "verdict-badge") == "✓ same ids"
        assert said(page, lane, "verdict-told") == f"all {total} tokens"
    page.fill(".scrub", "4")
    wait_for_head(page, 4)
    assert said(page, 2, "verdict-told").startswith("the first")


def test_sampled_lanes_with_draws_of_their_own_keep_the_distribution(open_page, tmp_path):
    page = open_page()
    open_trace(page, raced("autoregressive", "draft-model", "lookahead", temperature=1.0), tmp_path)
    assert said(page, 2, "verdict-badge") == "≈ same distribution (tested)"
    assert said(page, 2, "verdict-told").startswith("other draws, so other text from token")
    assert said(page, 3, "verdict-badge") == "✓ same ids"


def test_the_form_of_the_lanes_is_worked_by_keys_alone(open_page):
    page = open_page()
    page.focus(".lane-form.lane-1 select.method")
    focus = "document.activeElement"
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert page.input_value(".lane-form.lane-1 select.method") == list(METHODS)[2]
    assert page.evaluate(f"{focus}.className") == "method"
    page.keyboard.press("Tab")
    for lanes in (3, 4):
        page.keyboard.press("Enter")
        assert page.locator(".lane-form").count() == lanes
    assert page.evaluate(f"{focus}.className") == "method", "no more lanes: the button is switched off"
    page.focus(".lane-form.lane-4 button[title=Remove]")
    page.keyboard.press("Enter")
    assert page.locator(".lane-form").count() == 3
    assert page.evaluate(f"{focus}.className") == "add-lane"
    page.keyboard.press("Enter")
    assert page.evaluate(f"{focus}.closest('.lane-form').className") == "lane-form lane-4"


def test_a_lossy_lane_is_called_lossy(open_page, tmp_path):
    page = open_page()
    open_trace(page, raced("autoregressive", "medusa", temperature=1.0, acceptance="typical"), tmp_path)
    assert said(page, 2, "verdict-badge") == "! lossy"


def test_other_ids_are_named_with_their_place(open_page):
    page = open_page()
    assert said(page, 2, "verdict-badge") == "≠ other ids"
    told = said(page, 2, "verdict-told")
    assert told.startswith("from token 1 on: ␣word10")
    assert "where autoregressive has ␣t0" in told


def test_speed_place_and_reason_are_those_of_the_trace(open_page):
    page, trace = open_page(), traces.race()
    plain, drafted = (summarize(trace.steps(lane)) for lane in (0, 1))
    ratio = drafted.tokens_per_second / plain.tokens_per_second
    assert said(page, 1, "times") == "1.00×"
    assert said(page, 2, "times") == f"{ratio:.2f}×"
    assert ratio > 1
    assert said(page, 2, "place-note") == "faster · 1st"
    assert said(page, 1, "why").startswith("One token a pass, but none from the pass that read the prompt: ")
    shown = page.inner_text(".lane-2 .figures div:nth-child(2) dd")
    assert said(page, 2, "why").startswith(f"Faster: {shown} tokens a pass instead of ")
    size = page.eval_on_selector(".lane-2 .times", "one => parseFloat(getComputedStyle(one).fontSize)")
    assert size >= 30


def test_a_lane_alone_has_no_verdict(open_page, tmp_path):
    page = open_page()
    open_trace(page, traces.of_method("draft-model"), tmp_path)
    assert page.locator(".lane-1 .verdict").is_hidden()
    assert said(page, 1, "times") == ""


def test_the_tokens_of_a_word_touch(open_page, tmp_path):
    page = open_page()
    trace = traces.race()
    for at, step in enumerate(trace.steps(1)):
        for token in step.emitted:
            token.text = f"ab{at}"
    open_trace(page, trace, tmp_path)
    gaps = page.evaluate("""() => {
        const all = [...document.querySelectorAll('.lane-2 .tokens .token:not(.rejected)')];
        const boxes = all.map((one) => one.getBoundingClientRect());
        return boxes.slice(1).map((box, at) => [box.top, boxes[at].top, box.left - boxes[at].right]);
    }""")
    level = [gap for top, before, gap in gaps[:1] + gaps[2:5] if top == before]
    assert level
    assert all(abs(gap) < 0.5 for gap in level if gap < 5)
    assert min(abs(gap) for gap in level) < 0.5


def test_a_phone_labels_the_figures_of_folded_lanes(open_page):
    page = open_page(width=390, height=844)
    folded = page.locator(".lane-1")
    assert folded.locator(".tokens").is_hidden()
    assert folded.locator("dt >> text=tokens / s").is_visible()
    assert folded.locator("dt >> text=tokens / pass").is_visible()
    assert folded.locator(".times").is_visible()


def test_the_same_method_twice_with_other_settings_takes_one_click(open_page, engine):
    page = open_page()
    page.click("[aria-label='Duplicate lane 2']")
    page.fill(".lane-form.lane-3 input[name=k]", "8")
    assert page.input_value(".lane-form.lane-2 input[name=k]") == "4"
    engine.trace.lanes = [engine.trace.lanes[0], traces.lane(settings={"k": 4}), traces.lane(settings={"k": 8})]
    engine.trace.order += [(2, step) for step in engine.trace.steps(1)]
    page.click("#run")
    page.wait_for_function(
        "document.querySelector('.stage').view().log.end === 'done' && document.querySelector('.lane-3 .times')"
    )
    assert [lane.settings.get("k") for lane in engine.specs[-1].lanes] == [None, 4, 8]
    titles = page.eval_on_selector_all(".lane .lane-title", "all => all.map((one) => one.textContent)")
    assert titles == ["Autoregressive", "Draft model · k 4", "Draft model · k 8"]
