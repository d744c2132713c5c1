"""The views' figures under Node, on steps that the real engine made on a table model."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, chain

import pytest

from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.trace import Lane, Status, Step, Trace, summarize
from playground.decoding.tree import TreeShape
from playground.drafters.lookahead import window_mask
from playground.methods import METHODS
from playground.ui import wire
from tests.ui import traces
from tests.world import SMALL, run_method, table_world

COLOURS = {
    **{str(status): "#00865f" for status in Status},
    **{"ink": "#111111", "muted": "#5b5b63", "line": "#e2e2e0", "paper": "#ffffff"},
    **{"lanes": ["#0072b2", "#d55e00", "#009e73", "#b0568c"], "phases": {}},
}
DRAW = """
const { viewsOf } = views;
const run = log.receive(log.emptyLog(), JSON.parse(given.message));
const drawn = Object.assign({}, view_tree, view_mask, view_window, view_pool, view_jacobi, view_nested, view_batch,
  view_cache, view_acceptance, view_cost, view_timeline, view_pace);
"""


@pytest.fixture
def draw(in_node):
    """Figures of a trace by name, at each of some positions of its playhead: [[figure, ...], ...]."""

    def draw(trace: Trace, names: list[str], heads: list[int] | None = None, width: int = 640) -> list[list[dict]]:
        given = {
            "message": wire.whole(trace, "run"), "names": names, "colours": COLOURS, "width": width,
            "heads": list(range(len(trace.order) + 1)) if heads is None else heads,
        }  # fmt: skip
        body = """result = given.heads.map((head) =>
            given.names.map((name) => drawn[name](run, 0, head, given.colours, given.width)));"""
        return in_node(DRAW + body, given)

    return draw


def named(trace: dict, meta: object) -> dict:
    (found,) = [one for one in trace["data"] if one.get("meta") == meta]
    return found


def batch(method: str, rows: int) -> Trace:
    """Sequences of several lengths in one executor."""
    models, settings = table_world(), METHODS[method].check(SMALL.get(method, {}) | {"batch": rows})
    executor = Executor(models.target, rows)
    sessions = [
        Session(executor, METHODS[method].build(models, settings), [1, 2, 3, row], Sampling(seed=row),
                max_new_tokens=8 + 7 * row, row=row)
        for row in range(rows)
    ]  # fmt: skip
    lane = traces.lane(method, METHODS[method].title, settings=settings, prompt_ids=[1, 2, 3, 0])
    return Trace([lane], order=[(0, step) for step in decode(sessions)])


VIEWS = {
    "autoregressive": [],
    "draft-model": ["nested", "tree", "acceptance"],
    "prompt-lookup": ["tree", "acceptance"],
    "medusa": ["tree", "acceptance"],
    "lookahead": ["window", "tree", "acceptance"],
    "jacobi": ["jacobi", "tree", "acceptance"],
    "medusa-draft": ["nested", "tree", "acceptance"],
    "early-exit": ["tree", "acceptance"],
    "cascade": ["nested", "tree", "acceptance"],
}


@pytest.mark.parametrize("method", METHODS)
def test_a_lane_has_the_views_for_which_it_has_data_and_all_can_be_drawn_at_any_time(in_node, method):
    trace = traces.of_method(method, temperature=0.8) if method != "naive-batching" else batch(method, 3)
    heads = sorted({0, 1, 2, len(trace.order) // 2, len(trace.order)})
    body = """
    const names = viewsOf(run, 0);
    result = [names.map(({ id }) => id), names.flatMap(({ figures: of }) => Object.values(of)).flatMap((figure) =>
      given.heads.flatMap((head) => [320, 900].map((width) => figure(run, 0, head, given.colours, width))))];
    """
    ids, figures = in_node(DRAW + body, {"message": wire.whole(trace, "run"), "heads": heads, "colours": COLOURS})
    assert ids == [*VIEWS.get(method, ["batch"]), "cost", "cache"]
    for figure in figures:
        assert figure["caption"].strip()
        assert not any(slip in figure["caption"] for slip in ("undefined", "NaN", "null", "{"))
        assert figure["layout"]["height"] <= 800


@pytest.mark.parametrize("method", ["medusa", "lookahead", "draft-model", "prompt-lookup"])
def test_the_tree_shows_every_node_with_its_fate_and_a_node_keeps_its_place(draw, method):
    trace = traces.of_method(method, temperature=0.8)
    places: dict[tuple[int, ...], tuple[float, float]] = {}
    for step, (tree,) in zip(trace.steps(0), draw(trace, ["tokenTree"])[1:], strict=True):
        shown = [
            (point["meta"], token, (x, y))
            for point in tree["data"] if point["mode"] == "markers+text" and point["meta"] != "last"
            for token, x, y in zip(point["customdata"], point["x"], point["y"], strict=True)
        ]  # fmt: skip
        own = [token for token in step.emitted if token.status is not Status.ACCEPTED]
        assert Counter((meta, token) for meta, token, _ in shown) == Counter(
            (str(one.status), one.token) for one in (*step.nodes, *own)
        )
        where = {at: [token for _, token, spot in shown if spot == at] for at in {spot for _, _, spot in shown}}
        assert all(len(tokens) == 1 for tokens in where.values())
        paths: list[tuple[int, ...]] = []
        for at, node in enumerate(step.nodes):
            rank = sum(other.parent == node.parent for other in step.nodes[:at])
            paths.append(((*paths[node.parent], rank)) if node.parent >= 0 else (rank,))
            spots = [spot for spot, (token,) in where.items() if token == node.token and spot[0] == len(paths[-1])]
            if len(spots) == 1:
                assert places.setdefault(paths[-1], spots[0]) == spots[0]
    assert len(set(places.values())) == len(places) > 2


def test_the_tree_tells_at_a_node_what_the_step_knows_of_it(draw):
    trace = traces.of_method("medusa", temperature=0.8)
    at, step = next((at, step) for at, step in enumerate(trace.steps(0)) if step.accepted)
    ((tree,),) = draw(trace, ["tokenTree"], [at + 1])
    node = next(node for node in step.nodes if node.status is Status.ACCEPTED)
    (note,) = [
        text for text, token in zip(named(tree, "accepted")["hovertext"], named(tree, "accepted")["customdata"],
                                    strict=True) if token == node.token
    ][:1]  # fmt: skip
    assert all(part in note for part in (f"w{node.token}", node.source, node.reason, "head’s p", "target p"))
    thick = {one["meta"]: one["line"]["width"] for one in tree["data"] if one["mode"] == "lines"}
    assert thick["edges accepted"] > 2 * max(thick.get("edges rejected", 0), thick.get("edges never-reached", 0))


@pytest.mark.parametrize("method", ["medusa", "lookahead", "draft-model"])
def test_the_mask_matrix_is_the_mask_of_the_pass(draw, method):
    trace = traces.of_method(method)
    for step, (figure,) in zip(trace.steps(0), draw(trace, ["maskMatrix"])[1:], strict=True):
        n, side = len(step.nodes), step.side_rows
        tree = TreeShape(tuple(node.parent for node in step.nodes)).mask.tolist() if n else []
        levels = step.view["before"] if side else []
        window = window_mask(len(levels), len(levels[0])).tolist() if side else []
        shown = [[cell is not None for cell in row] for row in figure["data"][0]["z"]]
        # Every row sees the text and the last committed token.
        assert shown == [
            [True, True] + [False] * (n + side),
            *([True, True, *row] + [False] * side for row in tree),
            *([True, True] + [False] * n + row for row in window),
        ]


def test_the_window_stands_by_position_and_its_diagonals_are_the_n_grams(draw):
    trace = traces.of_method("lookahead")
    kinds = set()
    for step, (figure,) in zip(trace.steps(0), draw(trace, ["lookaheadWindow"])[1:], strict=True):
        cells, view = figure["data"][0], step.view
        levels = [*view["before"], *([view["results"]] if view["results"] else [])]
        assert cells["customdata"] == [
            [*[None] * at, *level, *[None] * (len(cells["z"][0]) - at - len(level))] for at, level in enumerate(levels)
        ]
        for column, ngram in enumerate(view["diagonals"]):
            assert [row[at + column] for at, row in enumerate(cells["customdata"])] == ngram
            new = ["added", ngram] in view["pool"]
            kind = cells["meta"][cells["z"][-1][len(levels) - 1 + column]]
            assert kind.startswith("new" if new else "known")
            kinds.add(kind)
        strokes = sum(len(line["x"]) for line in figure["data"][1:]) // 3
        assert strokes == len(view["diagonals"]) * (len(levels) - 1)
    assert len(kinds) == 4


def test_the_pool_is_the_drafter_s_and_what_was_tried_comes_first(draw, in_node):
    models = table_world(vocab=9, order=3, seed=5)
    session, steps = run_method(METHODS["lookahead"], models, [1, 2, 3, 1, 2], Sampling(seed=3))
    lane = traces.lane("lookahead", "Lookahead", prompt_ids=[1, 2, 3, 1, 2])
    trace = Trace([lane], order=[(0, step) for step in steps])
    body = "result = [...drawn.poolAfter(run.lanes[0].tracks[0].steps).entries.values()];"
    rebuilt = in_node(DRAW + body, {"message": wire.whole(trace, "run")})
    held = session.drafter.pool.found
    assert sorted(rebuilt) == sorted(list(ngram) for entries in held.values() for ngram in entries)
    for first, entries in held.items():
        assert [ngram for ngram in rebuilt if ngram[0] == first] == [list(ngram) for ngram in entries]
    seen = set()
    for step, (figure,) in zip(steps, draw(trace, ["ngramPool"])[1:], strict=True):
        (cells,) = figure["data"]
        kinds = cells["name"].split()
        seen |= set(kinds)
        rows = [[token for token in row if token is not None] for row in cells["customdata"]]
        tried = [[step.view["before"][0][0], *one["tokens"]] for one in step.view["candidates"]]
        assert sorted(row for row, kind in zip(rows, kinds, strict=True) if kind == "tried") == sorted(tried)[:10]
        for row, kind in zip(rows, kinds, strict=True):
            if kind in ("added", "refreshed", "evicted"):
                assert [kind, row] in step.view["pool"]
        matched = max([0, *(one["matched"] for one in step.view["candidates"])])
        assert f"the best had {matched} token{'' if matched == 1 else 's'} right" in figure["caption"]
        assert [cells["meta"][kind] for kind in cells["z"][0]].count("matched") == matched
    assert seen == {"tried", "added", "refreshed", "evicted", "kept"}


def test_the_jacobi_block_stands_by_position_and_its_solved_prefix_is_the_text(draw):
    trace = traces.of_method("jacobi")
    text = [*trace.lanes[0].prompt_ids, *(token.token for step in trace.steps(0) for token in step.emitted)]
    fed = [step for step in trace.steps(0) if "fixed" in step.view]
    done = trace.steps(0)
    for count, (figure,) in enumerate(draw(trace, ["jacobiTrajectory"])):
        passes = [step for step in done[:count] if step in fed][-12:]
        if not passes:
            assert figure["data"] == []
            continue
        (cells,) = figure["data"]
        origin = passes[0].view["start"]
        for step, row, kinds in zip(passes, cells["customdata"], cells["z"], strict=False):
            start, before = step.view["start"] - origin, step.view["before"]
            assert row[start : start + len(before)] == before
            assert row[:start] == text[origin : origin + start]
            names = [cells["meta"][kind] for kind in kinds if kind is not None]
            assert names[:start] == ["settled"] * start
            assert names.count("accepted") == step.accepted
        last = passes[-1].view
        assert cells["customdata"][-1][last["start"] - origin :] == last["after"]


@pytest.mark.parametrize("method", ["medusa-draft", "draft-model", "cascade"])
def test_the_nested_view_shows_each_pass_of_the_draft_and_the_target_s_verdict(draw, method):
    trace = traces.of_method(method, temperature=0.8)
    nested = 0
    for step, (figure,) in zip(trace.steps(0), draw(trace, ["nestedDraft"])[1:], strict=True):
        if not step.children:
            assert figure["data"] == []
            continue
        nested += 1
        rows = [[token for token in row if token is not None] for row in figure["data"][0]["customdata"]]
        inner = [[token.token for token in child.emitted] for child in step.children]
        if any(child.nodes for child in step.children):
            assert rows[1:-2:2] == inner
            lead = [next((at for at, cell in enumerate(row) if cell is not None), 0) for row in
                    figure["data"][0]["customdata"][1:-2:2]]  # fmt: skip
            assert lead == [0, *accumulate(map(len, inner[:-1]))]
        else:
            assert rows[0] == list(chain.from_iterable(inner))
        assert rows[-2:] == [[node.token for node in step.nodes], [token.token for token in step.emitted]]
    assert nested >= 3


@pytest.mark.parametrize("method", ["autoregressive", "medusa"])
def test_batch_rows_show_who_gained_what_and_how_much_was_padding(draw, method):
    size = 3
    trace = batch(method, size)
    ((figure,),) = draw(trace, ["batchRows"], [len(trace.order)])
    rows = [trace.steps(0, row) for row in range(size)]
    passes = max(map(len, rows))
    gained = [[len(step.emitted) for step in steps] + [0] * (passes - len(steps)) for steps in rows]
    assert named(figure, "tokens")["z"] == gained
    widths = [[steps[at].rows for steps in rows if at < len(steps)] for at in range(passes)]
    assert named(figure, "used")["y"] == [sum(width) for width in widths]
    assert named(figure, "padding")["y"] == [size * max(width) - sum(width) for width in widths]
    assert any(named(figure, "padding")["y"])


@pytest.mark.parametrize("method", ["medusa", "lookahead"])
def test_the_cache_strip_adds_up(draw, method):
    trace = traces.of_method(method)
    ((figure,),) = draw(trace, ["cacheStrip"], [len(trace.order)])
    steps = trace.steps(0)[-40:]
    parts = {one["meta"]: one["y"] for one in figure["data"]}
    assert parts["before"] == [step.cache_before for step in steps]
    assert parts["kept"] == [step.cache_after - step.cache_before for step in steps]
    assert parts.get("side", [0] * len(steps)) == [step.side_rows for step in steps]
    gone = [sum(pair) for pair in zip(parts["discarded"], parts.get("side", [0] * len(steps)), strict=True)]
    assert gone == [step.rows_discarded for step in steps]


def judged(step: Step) -> int:
    """How many places ahead verification looked at: the accepted path and, if it went on, one more."""
    path = [at for at, node in enumerate(step.nodes) if node.status is Status.ACCEPTED]
    end = path[-1] if path else -1
    return len(path) + any(node.parent == end for node in step.nodes)


@pytest.mark.parametrize("method", ["medusa", "draft-model", "lookahead"])
def test_acceptance_is_counted_as_the_summary_counts_it(draw, method):
    trace = traces.of_method(method, temperature=0.8)
    ((bars, places),) = draw(trace, ["acceptedPerStep", "acceptanceByPosition"], [len(trace.order)])
    steps = [step for step in trace.steps(0) if step.nodes]
    counted = summarize(trace.steps(0)).acceptance_histogram
    shown = named(bars, "histogram")["y"]
    assert shown + [0] * (len(counted) - len(shown)) == counted
    depth = max(step.depth for step in steps)
    accepted = [sum(node.status is Status.ACCEPTED for node in step.nodes) for step in steps]
    for at in range(depth):
        right = sum(count > at for count in accepted)
        assert named(places, "of proposed")["customdata"][at] == [right, sum(step.depth > at for step in steps)]
        assert named(places, "of judged")["customdata"][at] == [right, sum(judged(step) > at for step in steps)]


def test_cost_is_stacked_by_phase(draw):
    trace = traces.of_method("draft-model")
    trace.steps(0)[0].seconds.prefill = 9.0
    ((passes, tokens),) = draw(trace, ["costPerPass", "costPerToken"], [len(trace.order)])
    steps = trace.steps(0)[-100:]
    for phase in ("draft", "forward", "acceptance", "bookkeeping"):
        spent = [1000 * getattr(step.seconds, phase) for step in steps]
        assert named(passes, phase)["y"] == pytest.approx(spent)
        emitted = sum(len(step.emitted) for step in steps)
        assert named(tokens, phase)["x"] == pytest.approx([sum(spent) / emitted])
    assert "9000.0 ms" in passes["caption"]


def test_what_a_model_or_a_file_wrote_is_no_markup_in_any_figure(in_node):
    trace = traces.awkward()
    trace.lanes[0].title = "<a href='x'>title</a>"
    body = """result = viewsOf(run, 0).flatMap(({ figures: of }) => Object.values(of)).concat([drawn.pace])
      .map((figure) => JSON.stringify(figure(run, 0, 3, given.colours, 640)));"""
    for figure in in_node(DRAW + body, {"message": wire.whole(trace, "run"), "colours": COLOURS}):
        written = figure.replace("<b>", "").replace("</b>", "").replace("<br>", "").replace("<extra></extra>", "")
        drawn, _, _ = written.partition('"caption"')
        assert "<" not in drawn


def test_a_lane_without_a_step_has_no_view(in_node):
    trace = Trace([traces.lane(), Lane("x", "X", {}, {}, {"temperature": 0.0}, "ids", [1])], order=[])
    assert in_node(DRAW + "result = viewsOf(run, 0).length;", {"message": wire.whole(trace, "run")}) == 0


@pytest.mark.parametrize("method", ["medusa", "medusa-draft"])
def test_a_hidden_verdict_is_in_no_picture_of_the_proposals(in_node, method):
    trace = traces.of_method(method, temperature=0.8)
    at = next(at for at, step in enumerate(trace.steps(0)) if step.accepted) + 1
    body = """const hidden = predict.veil(run, 0, given.head);
    result = [drawn.tokenTree, drawn.maskMatrix, drawn.nestedDraft].map((figure) =>
      figure(hidden, 0, given.head, given.colours, 640));"""
    given = {"message": wire.whole(trace, "run"), "head": at, "colours": COLOURS}
    tree, mask, nested = in_node(DRAW + body, given)
    assert {one["meta"] for one in tree["data"]} == {"edges proposed", "last", "proposed"}
    assert sum(len(one["x"]) for one in tree["data"] if one["meta"] == "proposed") == len(trace.steps(0)[at - 1].nodes)
    path = mask["data"][0]["meta"].index("path")
    assert sum(cell == path for row in mask["data"][0]["z"] for cell in row) == 1  # the last committed token's own
    if nested["data"]:
        (cells,) = nested["data"]
        assert {cells["meta"][kind] for kind in cells["z"][-2] if kind is not None} == {"proposed"}
        assert set(cells["z"][-1]) == {None}


def test_a_pass_of_very_many_rows_says_so_instead_of_a_matrix(draw):
    trace = Trace([traces.lane()], order=[(0, traces.chain(0, "r" + "n" * 199))])
    ((mask, tree),) = draw(trace, ["maskMatrix", "tokenTree"], [1])
    assert mask["data"] == []
    assert "201 rows" in mask["caption"]
    assert len(named(tree, "never-reached")["x"]) == 199
