"""The stage on recorded traces: what it shows, how it is moved, and what must not break it."""

from __future__ import annotations

import pytest

from playground.decoding.trace import Status, read_trace
from tests.browser.conftest import choose_file, head, open_trace, wait_for_head
from tests.ui import traces

pytestmark = pytest.mark.browser


def text(page, part: str) -> str:
    return page.inner_text(f".stage [data-part={part}]")


def test_first_paint_plays_a_recorded_run_and_says_so(open_page):
    page = open_page(still=False)
    assert text(page, "badge") == "Recorded run"
    assert text(page, "made") == "recorded at temperature 0 (greedy)"
    assert "on a test" in text(page, "facts")
    page.wait_for_function("document.querySelector('.stage').view().head >= 2")
    assert page.evaluate("document.querySelector('.stage').view().play.playing")


def test_reduced_motion_shows_the_finished_run(open_page):
    page = open_page(still=True)
    wait_for_head(page, len(traces.race().order))


def test_keys_move_the_playhead(open_page):
    page, last = open_page(), len(traces.race().order)
    for key, expected in [
        ("Home", 0), ("ArrowRight", 2), ("ArrowRight", 4), ("ArrowLeft", 2), ("End", last), ("ArrowLeft", last - 1),
        ("Shift+ArrowLeft", 0), ("Shift+ArrowRight", last),
    ]:  # fmt: skip
        page.keyboard.press(key)
        wait_for_head(page, expected)


def test_the_list_of_keys_has_keys_of_its_own(open_page):
    page = open_page()
    page.click("[data-part=keys]")
    page.keyboard.press("Home")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.keys", state="hidden")
    assert head(page) == len(traces.race().order)


def test_the_bar_says_whose_steps_it_counts(open_page):
    page = open_page()
    for lane in "12":
        page.keyboard.press(lane)
        page.wait_for_function(
            f"document.querySelector('.transport .place').textContent.startsWith('Lane {lane}: step ')"
        )


def test_space_plays_from_the_start_and_pauses(open_page):
    page = open_page()
    page.select_option(".speed", "20")
    page.keyboard.press(" ")
    page.wait_for_function("document.querySelector('.stage').view().play.playing")
    page.keyboard.press(" ")
    held = head(page)
    page.wait_for_timeout(400)
    assert head(page) == held
    page.keyboard.press(" ")
    wait_for_head(page, len(traces.race().order))


def test_keys_belong_to_the_field_in_which_they_are_typed(open_page):
    page = open_page()
    page.click("#prompt textarea")
    page.keyboard.press("Home")
    page.keyboard.type("p l 1 ")
    assert head(page) == len(traces.race().order)
    assert page.locator("#controls").is_visible()
    assert "p l 1 " in page.input_value("#prompt textarea")


def test_buttons_and_scrubber(open_page):
    page = open_page()
    page.click("[data-action=first]")
    wait_for_head(page, 0)
    page.click("[data-action=forward]")
    wait_for_head(page, 2)
    page.fill(".scrub", "7")
    wait_for_head(page, 7)
    page.click("[data-action=back]")
    wait_for_head(page, 4)


def test_a_click_on_a_token_goes_to_its_step(open_page):
    page = open_page()
    page.click(".lane-2 .step[data-step='1'] .token.accepted >> nth=0")
    wait_for_head(page, 4)
    assert "All 4 proposed tokens were accepted" in text(page, "story")


def test_the_prompt_shows_its_tokens_with_their_ids(open_page):
    page, lane = open_page(), traces.race().lanes[0]
    shown = page.eval_on_selector_all("[data-part=prompt] .piece", "all => all.map((p) => [p.textContent, p.title])")
    assert shown == [
        [piece, f"token {at} of the prompt · id {token}"]
        for at, (piece, token) in enumerate(zip(lane.prompt_pieces, lane.prompt_ids, strict=True), 1)
    ]
    page.focus("[data-part=prompt]")
    assert page.eval_on_selector("[data-part=prompt]", "one => getComputedStyle(one).whiteSpace") == "pre-wrap"


def test_number_keys_focus_a_lane(open_page):
    page = open_page()
    assert text(page, "place").startswith("Draft model")
    page.keyboard.press("1")
    page.wait_for_function("document.querySelector('[data-part=place]').textContent.startsWith('Autoregressive')")
    page.keyboard.press("4")
    assert page.get_attribute(".lane.lane-1", "aria-current") == "true"


def test_text_figures_and_sentence_follow_the_playhead(open_page):
    page, trace = open_page(), traces.race()
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelectorAll('.step').length === 0")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelectorAll('.lane-2 .step').length === 1")
    marked = page.eval_on_selector_all(".lane-2 .tokens .token", "all => all.map((one) => one.className)")
    assert marked == ["token accepted", "token rejected", "token corrected"]
    assert "4 tokens were proposed, 1 accepted" in text(page, "story")
    page.keyboard.press("End")
    page.wait_for_function("document.querySelectorAll('.lane-2 .step').length === 5")
    steps = trace.steps(1)
    emitted, accepted, proposed = (
        sum(values)
        for values in zip(*[(len(step.emitted), step.accepted, len(step.nodes)) for step in steps], strict=True)
    )
    seconds = sum(step.seconds.own for step in steps)
    shown = page.eval_on_selector_all(".lane-2 .figures dd", "all => all.map((one) => one.textContent)")
    assert shown == [f"{emitted / seconds:.0f}", f"{emitted / 5:.2f}", f"{100 * accepted / proposed:.0f} %"]


def test_rejected_tokens_can_be_hidden(open_page):
    page = open_page()
    rejected = page.locator(".lane-2 .tokens .rejected").first
    assert rejected.is_visible()
    page.click(".rejected-toggle")
    assert rejected.is_hidden()
    page.click(".rejected-toggle")
    assert rejected.is_visible()


def test_a_narrow_window_shows_what_the_target_said(open_page):
    page = open_page(width=390, height=844)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    wait_for_head(page, 4)
    page.wait_for_function("""() => {
        const tree = document.querySelector('.tree');
        const box = tree.getBoundingClientRect();
        const own = tree.querySelector('.node.bonus .name')?.getBoundingClientRect();
        return own && tree.scrollWidth > box.width && box.left <= own.left && own.right <= box.right;
    }""")


def test_the_tree_draws_every_node_with_its_fate(open_page):
    page = open_page()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    wait_for_head(page, 2)
    drawn = page.eval_on_selector_all(".tree .node", "all => all.map((one) => one.classList[1])")
    assert drawn == ["plain", "accepted", "rejected", "never-reached", "never-reached", "corrected"]
    page.hover(".tree .node.rejected .reach")
    note = page.inner_text(".tip")
    assert "word11" in note
    assert "0.250" in note
    assert "draft model" in note


def test_a_node_keeps_its_place_across_the_steps_of_a_real_run(open_page, tmp_path):
    page = open_page()
    open_trace(page, traces.of_method("medusa"), tmp_path)
    places: dict[str, str] = {}
    page.keyboard.press("Home")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        drawn = page.evaluate("""async () => {
            await new Promise(requestAnimationFrame);
            const { log, head, lane } = document.querySelector('.stage').view();
            const step = log.order[head - 1].step;
            const nodes = [...document.querySelectorAll('.tree .node')].slice(1, 1 + step.nodes.length);
            return nodes.map((node, at) => [String(step.places[at]), node.getAttribute('transform')]);
        }""")
        for place, at in drawn:
            assert places.setdefault(place, at) == at
    assert len(places) == len(set(places.values())) > 3


CHARTS = """async () => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    const read = (name) => document.querySelector(`[data-part=${name}]`).data.map(({ meta, x, y }) => ({ meta, x, y }));
    return { timeline: read('timeline'), pace: read('pace') };
}"""


def test_the_figures_hold_the_trace_at_every_pause(open_page):
    page, trace = open_page(), traces.race()
    page.wait_for_function("document.querySelector('[data-part=pace]').data")
    for position in (len(trace.order), 7, 2, 0):
        page.fill(".scrub", str(position))
        wait_for_head(page, position)
        shown = page.evaluate(CHARTS)
        steps = [step for lane, step in trace.order[:position] if lane == 1]
        for bar in shown["timeline"]:
            kept = bar["meta"] not in ("rejected", "never-reached")
            items = [step.emitted if kept else step.nodes for step in steps]
            assert bar["x"] == list(range(1, len(steps) + 1))
            assert bar["y"] == [sum(item.status is Status(bar["meta"]) for item in each) for each in items]
        assert {bar["meta"] for bar in shown["timeline"]} == {
            *("accepted", "corrected", "bonus", "plain", "rejected", "never-reached")
        }
        for lane, line in enumerate(shown["pace"]):
            mine = [step for at, step in trace.order[:position] if at == lane]
            assert line["y"] == [sum(len(step.emitted) for step in mine[:count]) for count in range(len(mine) + 1)]
            assert line["x"] == pytest.approx(
                [sum(step.seconds.own for step in mine[:n]) for n in range(len(mine) + 1)]
            )


@pytest.mark.parametrize("dark", [False, True])
def test_awkward_text_is_shown_as_it_is_and_runs_nothing(open_page, tmp_path, dark):
    page, trace = open_page(dark=dark), traces.awkward()
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    open_trace(page, trace, tmp_path)
    shown = page.evaluate("""async () => {
        await new Promise(requestAnimationFrame);
        const copy = document.querySelector('.tokens').cloneNode(true);
        copy.querySelectorAll('.newline, .rejected').forEach((mark) => mark.remove());
        return copy.textContent;
    }""")
    written = "".join(token.text for step in trace.steps(0) for token in step.emitted)
    assert shown == written.replace("\u202e", "‹202E›")
    for key in ("Home", *["ArrowRight"] * len(traces.AWKWARD)):
        page.keyboard.press(key)
        page.evaluate("new Promise(requestAnimationFrame)")
        page.hover(".tree .node.rejected .reach") if key == "ArrowRight" else None
    assert page.locator(".stage :is(img, script)").count() == 0
    assert text(page, "title") == "<b>awkward</b>"


WIDEST = """() => {
    const shown = [...document.querySelectorAll('.stage > *, #controls > *')].filter((one) => one.offsetParent);
    const edges = shown.map((one) => Math.round(one.getBoundingClientRect().right));
    return Math.max(document.documentElement.scrollWidth, ...edges);
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_never_scrolls_sideways(open_page, tmp_path, dark):
    page = open_page(dark=dark)
    page.wait_for_function("document.querySelector('[data-part=pace]').data")
    for trace in (traces.race(), traces.awkward(), traces.of_method("medusa")):
        open_trace(page, trace, tmp_path)
        for width in (1440, 820, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(200)
            assert page.evaluate(WIDEST) <= width, width


def test_light_and_dark_differ_and_the_switch_repaints_canvas_and_figures(open_page):
    page = open_page(dark=False)
    page.wait_for_function("document.querySelector('[data-part=pace]').data")
    look = """async () => {
        await new Promise((resolve) => setTimeout(resolve, 300));
        const fill = (selector) => getComputedStyle(document.querySelector(selector)).backgroundColor;
        const line = document.querySelector('[data-part=pace]').data[0].line.color;
        return [fill('body'), fill('.lane'), document.querySelector('.lane-2 .strip').toDataURL(), line];
    }"""
    light = page.evaluate(look)
    page.click("[data-part=theme]")
    dark = page.evaluate(look)
    assert all(one != other for one, other in zip(light, dark, strict=True))
    page.click("[data-part=theme]")
    assert page.evaluate(look) == light


def test_a_saved_trace_is_the_one_that_was_opened(open_page, tmp_path):
    page = open_page()
    for trace in (traces.awkward(), traces.of_method("lookahead", temperature=1.0)):
        open_trace(page, trace, tmp_path)
        with page.expect_download() as download:
            page.click("text=Save trace")
        with open(download.value.path(), encoding="utf-8") as lines:
            assert read_trace(lines) == trace


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "The trace file is empty"),
        (b"hello\n", "Line 1 of the trace"),
        (b'{"format":"x"}\n', "not a trace of the playground"),
        (b"\xff\xfe\x00", "it is no text"),
    ],
)
def test_a_broken_trace_file_is_a_sentence_and_nothing_is_lost(open_page, tmp_path, content, said):
    page = open_page()
    file = tmp_path / "broken.jsonl"
    file.write_bytes(content)
    choose_file(page, file)
    page.wait_for_selector(".notice.error")
    assert said in text(page, "notice")
    assert head(page) == len(traces.race().order)


def test_the_list_of_keys_opens_and_closes(open_page):
    page = open_page()
    page.click("[data-part=keys]")
    assert page.locator("dialog").is_visible()
    page.click("dialog button")
    assert page.locator("dialog").is_hidden()


def test_projector_mode_leaves_the_stage_alone(open_page):
    page = open_page()
    page.keyboard.press("p")
    assert page.locator("#controls").is_hidden()
    assert page.locator(".stage .lane-2").is_visible()
    assert page.locator(".stage .strip-key:visible").count() == 0, "what the strip shows, without a strip"
    for figures in page.locator(".stage .lane .figures").all():
        assert figures.evaluate("(box) => box.clientWidth > 100 && box.scrollWidth <= box.clientWidth"), "cut off"
    page.keyboard.press("p")
    assert page.locator("#controls").is_visible()
