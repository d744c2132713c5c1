"""The views on the real page against the trace: what Plotly holds during a run, at every pause and at the end."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest

import pytest

from playground.decoding.trace import Status, Trace
from tests.browser.conftest import open_trace
from tests.ui import traces

pytestmark = pytest.mark.browser

VIEW = "document.querySelector('.stage').view()"
# A figure as Plotly holds it, and the position of the playhead that it was drawn for.
READ = """(names) => names.map((name) => {
    const chart = document.querySelector(`[data-part=${name}]`);
    return { head: Number(chart.dataset.head), data: chart.data, label: chart.ariaLabel };
})"""
# Figures come after a run's first steps: until then they show the run before, at its own playhead.
OF_THIS_RUN = f"(name) => document.querySelector(`[data-part=${{name}}]`)?.layout?.uirevision === {VIEW}.log.run"
DRAWN = f"""([name, head]) => ({OF_THIS_RUN})(name)
    && document.querySelector(`[data-part=${{name}}]`).dataset.head === String(head)"""


def both() -> Trace:
    """Medusa against lookahead, step by step in turn."""
    medusa, lookahead = traces.of_method("medusa"), traces.of_method("lookahead")
    turns = zip_longest(medusa.steps(0), lookahead.steps(0))
    order = [(lane, step) for turn in turns for lane, step in enumerate(turn) if step is not None]
    return Trace([medusa.lanes[0], lookahead.lanes[0]], title="both", order=order)


def check_timeline(figure: dict, steps: list) -> None:
    for bar in figure["data"]:
        kept = bar["meta"] not in ("rejected", "never-reached")
        items = [step.emitted if kept else step.nodes for step in steps]
        assert bar["x"] == list(range(1, len(steps) + 1))
        assert bar["y"] == [sum(item.status is Status(bar["meta"]) for item in each) for each in items]


def check_tree(figure: dict, steps: list) -> None:
    shown = Counter(
        (points["meta"], token)
        for points in figure["data"]
        if points["mode"] == "markers+text" and points["meta"] != "last"
        for token in points["customdata"]
    )
    tokens = [*steps[-1].nodes, *(one for one in steps[-1].emitted if one.status is not Status.ACCEPTED)]
    assert shown == Counter((str(one.status), one.token) for one in tokens)
    assert f"{len(steps[-1].nodes)} candidate" in figure["label"] or not steps[-1].nodes


def check_pool(figure: dict, steps: list) -> None:
    pool: dict[tuple[int, ...], None] = {}
    for step in steps:
        for kind, ngram in step.view["pool"]:
            pool.pop(tuple(ngram), None)
            if kind != "evicted":
                pool[tuple(ngram)] = None
    (cells,) = figure["data"]
    rows = [[token for token in row if token is not None] for row in cells["customdata"]]
    kinds = cells["name"].split()
    view = steps[-1].view
    tried = [[view["before"][0][0], *one["tokens"]] for one in view["candidates"]]
    assert sorted(row for row, kind in zip(rows, kinds, strict=True) if kind == "tried") == sorted(tried)
    for row, kind in zip(rows, kinds, strict=True):
        if kind != "tried":
            assert (tuple(row) in pool) == (kind != "evicted")
            assert kind == "kept" or [kind, row] in view["pool"]
    assert f"{len(pool)} n-grams" in figure["label"]


CHECKS = {"timeline": check_timeline, "token-tree": check_tree, "pool": check_pool}


@pytest.mark.parametrize(("lane", "names"), [(0, ["timeline", "token-tree"]), (1, ["timeline", "pool"])])
def test_tree_timeline_and_pool_hold_the_trace_during_a_run_and_at_its_end(open_page, engine, lane, names):
    engine.trace, engine.pause = both(), 0.25
    order = engine.trace.order
    page = open_page()
    page.wait_for_function("document.querySelector('[data-part=pace]').data")
    page.click("#run")
    page.wait_for_function(f"{VIEW}.log.title === 'both' && {VIEW}.head > 2")
    page.keyboard.press(str(lane + 1))
    page.wait_for_function(OF_THIS_RUN, arg=names[1])
    seen: set[int] = set()
    while not page.evaluate(f"{VIEW}.log.end") or max(seen) < len(order):
        page.wait_for_function(
            "([name, head]) => Number(document.querySelector(`[data-part=${name}]`).dataset.head) > head",
            arg=[names[1], max(seen, default=1)],
        )
        for name, figure in zip(names, page.evaluate(READ, names), strict=True):
            steps = [step for at, step in order[: figure["head"]] if at == lane]
            CHECKS[name](figure, steps)
            seen.add(figure["head"])
    assert len(seen) > 2


def test_a_figure_is_exact_wherever_the_run_is_paused(open_page, tmp_path):
    page, trace = open_page(), both()
    open_trace(page, trace, tmp_path)
    for lane, name in enumerate(("token-tree", "pool")):
        page.keyboard.press(str(lane + 1))
        page.wait_for_selector(f"[data-part={name}]")
        for head in (len(trace.order), 6, 13, 2):
            page.fill(".scrub", str(head))
            page.wait_for_function(DRAWN, arg=[name, head])
            (figure,) = page.evaluate(READ, [name])
            CHECKS[name](figure, [step for at, step in trace.order[:head] if at == lane])


def test_tabs_offer_what_the_lane_has_and_the_choice_stays(open_page, tmp_path):
    page, trace = open_page(), both()
    open_trace(page, trace, tmp_path)

    def tabs() -> list[str]:
        return page.eval_on_selector_all(".tabs button", "all => all.map((one) => one.dataset.view)")

    page.wait_for_selector(".tabs [data-view=tree]")
    assert tabs() == ["tree", "acceptance", "cost", "cache"]
    page.keyboard.press("2")
    page.wait_for_selector(".tabs [data-view=window][aria-pressed=true]")
    page.click(".tabs [data-view=cache]")
    page.wait_for_function(DRAWN, arg=["cache", len(trace.order)])
    assert page.locator("[data-figure=pool]").is_hidden()
    page.keyboard.press("1")
    page.wait_for_function("document.querySelector('.tabs').children.length === 4")
    assert page.get_attribute(".tabs [data-view=cache]", "aria-pressed") == "true"


def test_every_figure_says_in_words_what_it_shows(open_page, tmp_path):
    page, trace = open_page(), both()
    open_trace(page, trace, tmp_path)
    for lane in "12":
        page.keyboard.press(lane)
        page.wait_for_timeout(100)
        for tab in page.locator(".tabs button").all():
            tab.click()
            page.wait_for_selector(f".tabs [data-view={tab.get_attribute('data-view')}][aria-pressed=true]")
            page.wait_for_function(
                "head => [...document.querySelectorAll('.views .chart')].filter((one) => one.offsetParent)"
                ".every((one) => one.dataset.head === head)",
                arg=str(len(trace.order)),
            )
            for chart in page.locator(".stage .chart:visible").all():
                assert chart.get_attribute("role") == "img"
                said = chart.locator("xpath=../figcaption").inner_text()
                assert said
                assert said in chart.get_attribute("aria-label")


@pytest.mark.parametrize("width", [1440, 820, 390])
def test_a_tree_of_many_nodes_and_a_wide_grid_stay_inside_the_page(open_page, tmp_path, width):
    page = open_page(width=width)
    for method, name in (("medusa", "mask"), ("lookahead", "pool"), ("jacobi", "jacobi"), ("medusa-draft", "nested")):
        trace = traces.of_method(method)
        open_trace(page, trace, tmp_path)
        page.wait_for_function(DRAWN, arg=[name, len(trace.order)])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = page.locator(f"[data-part={name}]").bounding_box()
        assert box["x"] + box["width"] <= width


def test_tokens_with_markup_make_no_element_and_no_link_in_a_figure(open_page, tmp_path):
    page, trace = open_page(), traces.awkward()
    for step in trace.steps(0):
        step.pieces = {token: f"<a href='https://example.org'>{piece}</a>" for token, piece in step.pieces.items()}
    open_trace(page, trace, tmp_path)
    page.click(".tabs [data-view=tree]")
    page.wait_for_function(DRAWN, arg=["token-tree", len(trace.order)])
    assert page.locator(".views :is(a, img, script)").count() == 0
    assert any("<a" in text for text in page.locator("[data-part=token-tree] text").all_text_contents())
