"""The room of one step: what it shows of a step is what the trace holds, and a thousand next tokens prove it."""

from __future__ import annotations

import pytest

from playground.decoding.trace import Status, Step, Trace
from playground.ui import page as page_module
from tests.browser.conftest import open_trace, wait_for_head
from tests.browser.test_stage import WIDEST
from tests.ui import traces
from tests.ui.test_proof import Opener

pytestmark = pytest.mark.browser


def enter(page, position: int | None = None) -> None:
    """Into the room, at a position of the run."""
    page.click("nav [data-room=step]")
    if position is not None:
        page.fill(".scrub", str(position))
        wait_for_head(page, position)
    page.wait_for_selector(".one-step .place-column")


def corrected(trace: Trace) -> tuple[int, Step]:
    """The first step that rejected a guess and drew from the residual, and where it lies."""
    return next((at, step) for at, (_, step) in enumerate(trace.order, 1) if step.detail and step.detail[-1].residual)


def test_the_room_shows_one_lane_and_hides_the_race(open_page):
    page = open_page()
    assert page.locator(".one-step").is_hidden()
    enter(page)
    assert page.locator(".one-step").is_visible()
    assert page.locator(".lanes").is_hidden()
    assert page.inner_text(".lane-picker [aria-pressed=true]") == "Draft model"
    page.click(".lane-picker button >> nth=0")
    page.wait_for_function("document.querySelector('.one-step .big-story').textContent.includes('No guess')")
    page.click("nav [data-room=race]")
    assert page.locator(".lanes").is_visible()
    assert page.locator(".one-step").is_hidden()


def test_every_guess_is_a_card_with_its_fate_its_odds_and_its_test(open_page):
    page = open_page()
    enter(page, 2)
    cards = page.eval_on_selector_all(".places .card", "all => all.map((one) => one.classList[1])")
    assert cards == ["accepted", "rejected", "corrected", "never-reached", "never-reached"]
    rejected = page.locator(".places .card.rejected")
    assert "thrown away" in rejected.inner_text()
    assert rejected.locator(".odds").inner_text().split() == ["target", "p", "0.250", "draft", "q", "0.500"]
    zone = rejected.locator(".zone").evaluate("one => one.style.width")
    mark = rejected.locator(".at").evaluate("one => one.style.left")
    assert (float(zone.rstrip("%")), float(mark.rstrip("%"))) == (50, 70)
    assert "guess that the target did not go along with" in page.inner_text(".big-story")


def test_after_a_rejection_the_residual_is_shown_as_it_was_drawn_from(open_page, tmp_path):
    page, trace = open_page(), traces.of_method("draft-model", temperature=1.0)
    open_trace(page, trace, tmp_path)
    at, step = corrected(trace)
    enter(page, at)
    shown = page.evaluate("""() => [...document.querySelectorAll('.law-table tbody tr:not(.others)')].map((row) =>
        [row.className, ...[...row.querySelectorAll('td .value')].map((one) => one.textContent)])""")
    visited = step.detail[-1]
    assert len(shown) == len(visited.p)
    heads = page.eval_on_selector_all(".law-table thead th", "all => all.map((one) => one.textContent)")
    assert heads == ["token", "target p", "draft q", "drawn anew from, scaled to 1"]
    p, q, residual = dict(visited.p), dict(visited.q), dict(visited.residual)
    in_order = sorted(p, key=lambda token: -p[token])
    for token, (_, *values) in zip(in_order, shown, strict=True):
        for value, law in zip(values, (p, q, residual), strict=True):
            assert float(value.replace("·10⁻⁴", "e-4")) == pytest.approx(law.get(token, 0), rel=0.01)
    assert any(mark == "corrected" for mark, *_ in shown)
    assert page.locator(".redraw").is_visible()


def test_rows_of_the_cache_stay_or_go_as_the_step_says(open_page, tmp_path):
    page = open_page()
    for name in ("draft-model", "medusa", "lookahead"):
        trace = traces.of_method(name)
        open_trace(page, trace, tmp_path)
        for position in (1, 3, len(trace.order)):
            enter(page, position)
            step = trace.order[position - 1][1]
            kept, gone = (page.locator(f".rows .row.{kind}:not(.side)").count() for kind in ("kept", "gone"))
            fed = page.locator(".rows .row.fed").count()
            assert kept + fed == step.cache_after - step.cache_before
            assert kept + gone == len(step.nodes)
            assert f"{step.cache_before} rows before, {step.cache_after} after" in page.inner_text(".cache-rows")


def test_a_place_can_be_chosen_and_another_step_forgets_it(open_page, tmp_path):
    page, trace = open_page(), traces.of_method("draft-model", temperature=1.0)
    open_trace(page, trace, tmp_path)
    at = next(
        at
        for at, (_, step) in enumerate(trace.order, 1)
        if step.accepted and any(n.status is Status.REJECTED for n in step.nodes)
    )
    enter(page, at)
    last = page.inner_text(".trial h2")
    page.click(".place-column >> nth=0")
    page.wait_for_function("document.querySelector('.trial h2').textContent.startsWith('Place +1')")
    assert last != page.inner_text(".trial h2")
    assert page.evaluate("document.activeElement.className").startswith("place-column"), "the focus stays"
    page.keyboard.press("ArrowLeft")
    wait_for_head(page, at - 1)
    page.keyboard.press("ArrowRight")
    wait_for_head(page, at)
    assert page.inner_text(".trial h2") == last


def test_a_run_without_recorded_distributions_says_so(open_page):
    page = open_page()
    enter(page, 2)
    assert "did not record" in page.inner_text(".bars")


def test_before_the_first_step_there_is_no_place(open_page):
    page = open_page()
    enter(page, 2)
    page.keyboard.press("Home")
    wait_for_head(page, 0)
    assert "about to be read" in page.inner_text(".big-story")
    assert page.locator(".trial").is_hidden()


@pytest.mark.parametrize("dark", [False, True])
def test_the_room_never_scrolls_sideways(open_page, tmp_path, dark):
    page = open_page(dark=dark)
    for trace in (traces.awkward(), traces.of_method("medusa", temperature=1.0)):
        open_trace(page, trace, tmp_path)
        enter(page, 3)
        for width in (1440, 820, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(150)
            assert page.evaluate(WIDEST) <= width, width
        page.set_viewport_size({"width": 1440, "height": 900})


@pytest.fixture
def opener(monkeypatch):
    opener = Opener()
    monkeypatch.setattr(page_module, "open_run", lambda spec, *_: opener(spec))
    return opener


def test_a_thousand_next_tokens_fit_and_a_common_mistake_does_not(open_page, tmp_path, opener):
    page, trace = open_page(), traces.of_method("draft-model", temperature=1.0)
    trace.lanes[0].sampling = {"temperature": 1.0, "seed": 3}
    open_trace(page, trace, tmp_path)
    enter(page, 2)
    page.click(".proof button")
    page.wait_for_selector(".proof .fits")
    assert "1000 of 1000 tokens drawn" in page.inner_text(".proof-verdict")
    assert page.inner_text(".proof-where").startswith("Draft model, after")
    first = [token.token for token in trace.order[0][1].emitted]
    assert opener.spec.prompt_ids == (*trace.lanes[0].prompt_ids, *first)
    rows = page.locator(".proof-table tbody tr")
    assert rows.count() == 7  # six tokens of the table, and all others
    page.check(".proof [data-part=skip]")
    page.click(".proof button")
    page.wait_for_selector(".proof .differs")
    assert "the residual is what prevents that" in page.inner_text(".proof .differs").lower()


def test_what_cannot_be_proven_is_a_sentence(open_page, opener):
    page = open_page()
    page.click(".proof button") if page.locator(".proof").is_visible() else enter(page, 2)
    page.check(".proof [data-part=skip]")
    page.click(".lane-picker button >> nth=0")
    page.click(".proof button")
    page.wait_for_selector(".proof-error >> text=no residual to leave out")


def test_a_prediction_keeps_the_verdict_out_of_the_room(open_page):
    page = open_page()
    enter(page, 2)
    page.keyboard.press("Home")
    page.click("[data-action=predict]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".places .card.proposed")
    cards = page.eval_on_selector_all(".places .card", "all => all.map((one) => one.classList[1])")
    assert cards == ["proposed"] * 4
    assert "Still hidden" in page.inner_text(".judged")
    assert page.locator(".law-table").count() == 0
    page.click("[data-action=reveal]")
    page.wait_for_selector(".places .card.rejected")
