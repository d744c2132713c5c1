"""Lessons and prediction in the real page: deep links, moving on, what is hidden, and the visitor's own run after."""

from __future__ import annotations

import pytest

from playground.lessons.lessons import fill_lessons
from tests.browser.conftest import head, open_trace, wait_for_head
from tests.ui import traces

pytestmark = pytest.mark.browser

LESSONS = fill_lessons()
RUN = "document.querySelector('.stage').view().log.run"


def wait_for_step(page, step):
    page.wait_for_function(
        """([run, lane, head]) => {
            const now = document.querySelector('.stage').view();
            return now.log.run === run && now.lane === lane && now.head === head;
        }""",
        arg=[f"lesson-{step['recording']}", step["lane"], step["head"]],
    )


def test_an_address_opens_a_lesson_at_its_step(open_page):
    page = open_page(query="lesson=acceptance&step=4")
    (lesson,) = (lesson for lesson in LESSONS if lesson["id"] == "acceptance")
    step = lesson["steps"][3]
    wait_for_step(page, step)
    assert page.inner_text(".lessons h2") == lesson["title"]
    assert page.locator("#controls").is_hidden()
    assert page.locator(".stage").is_visible()
    assert page.get_attribute(".rooms [data-room=lessons]", "aria-current") == "page"
    assert page.locator(".lessons .holds").count() == len(step["claims"])


def test_the_list_opens_at_its_top_on_a_phone(open_page):
    page = open_page(width=390, height=844, query="room=lessons")
    page.wait_for_selector(".lesson-list")
    page.wait_for_function(f"{RUN} && document.querySelector('.stage').view().head > 1")
    assert page.evaluate("document.scrollingElement.scrollTop") == 0


def test_every_step_of_every_lesson_is_shown_and_points_at_something(open_page):
    page = open_page(query=f"lesson={LESSONS[0]['id']}")
    for lesson in LESSONS:
        for number, step in enumerate(lesson["steps"], 1):
            wait_for_step(page, step)
            assert f"lesson={lesson['id']}&step={number}" in page.url
            if step["point"]:
                page.wait_for_selector(f".stage {step['point']}.pointed")
            page.keyboard.press("PageDown")
    page.wait_for_selector(".lesson-list")


def test_lessons_go_back_and_the_run_of_the_visitor_comes_back(open_page):
    page = open_page()
    own = page.evaluate(RUN)
    page.fill(".scrub", "5")
    wait_for_head(page, 5)
    page.click(".rooms [data-room=lessons]")
    page.click(".lesson-list button >> nth=1")
    wait_for_step(page, LESSONS[1]["steps"][0])
    page.keyboard.press("n")
    wait_for_step(page, LESSONS[1]["steps"][1])
    page.keyboard.press("b")
    wait_for_step(page, LESSONS[1]["steps"][0])
    page.click(".rooms [data-room=race]")
    page.wait_for_function(f"{RUN} === '{own}'")
    wait_for_head(page, 5)
    assert page.locator("#controls").is_visible()
    assert "lesson" not in page.url


@pytest.mark.parametrize("query", ["lesson=nothing", "lesson=why-fast&step=999", "lesson=<img src=x>&step=<b>"])
def test_a_hostile_address_opens_something_harmless(open_page, query):
    page = open_page(query=query)
    page.wait_for_selector(".lessons h2")
    assert page.locator(".lessons img").count() == 0


def test_a_lesson_that_asks_keeps_its_answer(open_page):
    lesson = next(one for one in LESSONS if any(step["predict"] for step in one["steps"]))
    at = next(at for at, step in enumerate(lesson["steps"], 1) if step["predict"])
    page = open_page(query=f"lesson={lesson['id']}&step={at}")
    page.wait_for_selector(".quiz [data-vote=accepted]")
    assert page.locator(".lessons .lesson-claims").is_hidden()
    page.keyboard.press(" ")
    page.wait_for_selector(".lessons .lesson-claims", state="visible")


def test_a_prediction_hides_the_verdict_until_the_vote_and_counts_it(open_page):
    page = open_page()
    page.keyboard.press("Home")
    wait_for_head(page, 0)
    page.click("[data-action=predict]")
    page.keyboard.press("ArrowRight")
    wait_for_head(page, 2)  # arnn
    assert page.locator(".tree .node.proposed").count() == 4
    assert page.locator(".lane-2 .tokens .token").count() == 0
    assert "4 tokens are proposed" in page.inner_text("[data-part=story]")
    page.click("[data-vote=rejected]")
    page.wait_for_selector(".tree .node.accepted")
    assert page.inner_text(".quiz .score") == "Wrong. 0 of 1 predictions were right"
    assert page.locator(".lane-2 .tokens .token").count() == 3
    page.keyboard.press("ArrowRight")
    wait_for_head(page, 4)  # aaaa
    page.keyboard.press("a")
    page.wait_for_function("document.querySelector('.quiz .score').textContent.startsWith('Right. 1 of 2')")
    page.keyboard.press("ArrowRight")
    wait_for_head(page, 7)
    page.keyboard.press("ArrowRight")  # shows, and does not go on
    page.wait_for_selector(".tree .node.rejected")
    assert head(page) == 7
    assert page.inner_text(".quiz .score") == "1 of 2 predictions were right", "this step was not predicted"


def test_playback_stops_where_there_is_something_to_predict(open_page):
    page = open_page()
    page.select_option(".speed", "20")
    page.keyboard.press("Home")
    page.keyboard.press("g")
    page.keyboard.press(" ")
    wait_for_head(page, 2)
    page.wait_for_selector(".quiz [data-vote=accepted]")
    page.wait_for_timeout(300)
    assert head(page) == 2


def test_a_looped_step_shows_guesses_and_verdict_by_turns(open_page):
    page = open_page()
    page.fill(".scrub", "2")
    wait_for_head(page, 2)
    page.select_option(".speed", "10")
    page.keyboard.press("o")
    for _ in range(2):
        page.wait_for_selector(".tree .node.proposed")
        page.wait_for_selector(".tree .node.accepted")
    assert head(page) == 2
    page.keyboard.press("o")
    page.wait_for_selector(".tree .node.accepted")


@pytest.mark.parametrize("name", ["race", "medusa"])
def test_the_projector_shows_tree_and_sentence_without_scrolling(open_page, tmp_path, name):
    page = open_page(width=1280, height=720)
    if name == "medusa":
        open_trace(page, traces.of_method("medusa"), tmp_path)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("p")
    page.wait_for_timeout(300)
    for part in (".tree svg", "[data-part=story]", ".transport"):
        box = page.locator(f".stage {part}").bounding_box()
        assert box["y"] >= 0, part
        assert box["y"] + box["height"] <= 720, part
