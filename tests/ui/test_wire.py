"""What is sent arrives: nothing lost, nothing late, and the browser can write the trace file."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings

from playground.decoding.trace import Trace, read_trace, summarize
from playground.errors import UserError
from playground.methods import METHODS
from playground.ui import wire
from tests.ui import traces
from tests.ui.traces import write

IN_BROWSER = """
result = given.map((messages) => messages.reduce((all, text) => log.receive(all, JSON.parse(text)), log.emptyLog()));
result = result.map((one) => log.traceLines(one));
"""


def back(in_node, sent: list[list[str]]) -> list[Trace]:
    return [read_trace(lines) for lines in in_node(IN_BROWSER, sent)]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(traces.traces)
def test_any_trace_comes_back_from_the_browser(in_node, drawn):
    assert back(in_node, [[wire.whole(drawn, "run")]]) == [drawn]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_real_runs_of_every_method_come_back(in_node, temperature):
    runs = [traces.of_method(name, temperature) for name in METHODS]
    assert all(run.order for run in runs)
    assert back(in_node, [[wire.whole(run, "run")] for run in runs]) == runs


def test_the_browser_writes_the_very_file_that_python_writes(in_node, tmp_path):
    trace = traces.awkward()
    trace.lanes[0].sampling["seed"] = 2**64 - 1
    with open(write(trace, tmp_path / "trace.jsonl"), encoding="ascii") as file:
        ours = file.read().splitlines()
    (theirs,) = in_node(IN_BROWSER, [[wire.whole(trace, "run")]])
    assert theirs[0] == ours[0]
    assert list(map(json.loads, theirs)) == list(map(json.loads, ours))
    assert all(line.isascii() for line in theirs)


def test_a_stream_and_the_whole_trace_give_the_same_log(in_node):
    trace = traces.race()
    streamed = list(wire.stream(trace, trace.order, "run"))
    assert len(streamed) > 2
    assert back(in_node, [streamed, [wire.whole(trace, "run")]]) == [trace, trace]


def one_by_one():
    """A clock by which every step is slow enough to be sent alone."""
    return partial(next, itertools.count())


def test_what_is_known_only_at_the_end_reaches_the_browser(in_node):
    known, live = traces.served(), traces.served(settled=False)
    sent = list(wire.stream(live, traces.become(live, known), "run", one_by_one()))
    assert live == known
    assert back(in_node, [sent]) == [known]
    (amended,) = [told["amended"] for told in map(json.loads, sent) if told.get("amended", {}).get("steps")]
    assert [lane for lane, _ in amended["steps"]] == [1, 1, 1]
    assert json.loads(amended["header"])["lanes"][1]["models"] == {"target": "served"}


def test_what_is_known_when_a_lane_has_ended_does_not_wait_for_the_others(in_node):
    known, live = traces.served(), traces.served(settled=False)

    def steps():
        yield from traces.become(live, known)
        yield from [(0, traces.chain(at, "arn")) for at in range(50, 60)]

    sent = list(map(json.loads, wire.stream(live, steps(), "run", one_by_one())))
    assert next(at for at, told in enumerate(sent) if told.get("amended", {}).get("steps")) < len(sent) - 9


def test_a_run_of_which_all_was_known_is_not_amended():
    assert "amended" not in json.loads(list(wire.stream(traces.race(), traces.race().order, "run"))[-1])


def test_a_run_that_fails_is_amended_too(in_node):
    live = traces.served(settled=False)

    def fails():
        yield live.order[1]
        live.lanes[1].notices.append("the server died")
        raise UserError("the server died")

    sent = list(wire.stream(live, fails(), "run", one_by_one()))
    (trace,) = back(in_node, [sent])
    assert trace.lanes[1].notices == ["the server died"]
    assert trace.order == live.order[1:2]


def test_a_lost_message_leaves_the_other_steps_where_they_were(in_node):
    known, live = traces.served(), traces.served(settled=False)
    sent = list(wire.stream(live, traces.become(live, known), "run", one_by_one()))
    assert len(sent) > 3
    (trace,) = back(in_node, [[sent[0], *sent[2:]]])
    missing = len(json.loads(sent[1])["steps"])
    assert trace.order == known.order[missing:]


def test_a_tree_of_64_nodes_costs_little_on_the_wire():
    step = traces.chain(0, "r" + "n" * 63)
    assert len(json.dumps(wire.pack_step(step)["nodes"])) < 0.2 * len(json.dumps(asdict(step)["nodes"]))


def test_figures_in_the_browser_are_those_of_the_summary(in_node):
    runs = [traces.race(), traces.served(), *(traces.of_method(name, 1.0) for name in METHODS)]
    body = """
    result = given.map((text) => {
      const run = log.receive(log.emptyLog(), JSON.parse(text));
      return run.lanes.map((_, lane) => log.trackOf(run, lane).totals.map((at) => ({ ...at, ...figures.ratios(at) })));
    });
    """
    for run, lanes in zip(runs, in_node(body, [wire.whole(run, "run") for run in runs]), strict=True):
        for lane, totals in enumerate(lanes):
            steps = run.steps(lane)
            for count, total in enumerate(totals, 1):
                summary = summarize(steps[:count])
                assert total["emitted"] == len(summary.output_token_ids)
                assert total["proposed"] == (summary.num_draft_tokens or 0)
                assert total["accepted"] == (summary.num_accepted_draft_tokens or 0)
                assert total["forwards"] == summary.target_forwards
                assert total["tokensPerPass"] == pytest.approx(summary.tokens_per_target_pass)
                assert total["tokensPerSecond"] == pytest.approx(summary.tokens_per_second)
                assert total["acceptanceRate"] == pytest.approx(summary.draft_acceptance_rate)
                assert total["meanAcceptanceLength"] == pytest.approx(summary.mean_acceptance_length)


# ---- batching -----------------------------------------------------------------------------------------------------


def paced(gaps: list[float]):
    """Steps that take these seconds each, and the clock they move."""
    now = [0.0]

    def steps():
        for at, gap in enumerate(gaps):
            now[0] += gap
            yield 0, traces.chain(at, "arn")

    return steps(), lambda: now[0]


def sizes(gaps: list[float]) -> list[int]:
    steps, clock = paced(gaps)
    return [len(batch) for batch in wire.batches(steps, clock)]


def test_fast_steps_share_a_message():
    groups = sizes([0.001] * 1000)
    assert sum(groups) == 1000
    assert all(30 <= size <= 64 for size in groups[:-1])


def test_slow_steps_go_out_one_by_one():
    assert sizes([0.05] * 10) == [1] * 10
    assert sizes([0.03] * 10) == [1] * 10, "the next step would come too late to wait for"


def test_a_message_never_holds_more_than_64_steps():
    assert max(sizes([0.0] * 500)) == wire.FLUSH_STEPS


def test_the_last_steps_and_the_end_are_always_sent():
    steps, clock = paced([0.001] * 3)
    *_, last, end = map(json.loads, wire.stream(traces.race(), steps, "run", clock))
    assert len(last["steps"]) == 3
    assert end == {"run": "run", "seq": 2, "end": "done"}


def test_a_run_that_waits_sends_what_it_has_and_then_a_beat_now_and_then():
    now = [0.0]

    def steps():
        yield 0, traces.chain(0, "arn")
        for _ in range(250):
            now[0] += 0.01
            yield None

    groups = list(wire.batches(steps(), lambda: now[0]))
    assert [len(group) for group in groups] == [1, 0, 0]


def test_messages_are_numbered_from_the_header_on():
    messages = [json.loads(text) for text in wire.stream(traces.race(), traces.race().order, "abc")]
    assert [message["seq"] for message in messages] == list(range(len(messages)))
    assert {message["run"] for message in messages} == {"abc"}
    assert json.loads(messages[0]["header"])["machine"] == "a test"


def test_a_user_error_in_the_middle_ends_the_run_as_a_sentence():
    def steps():
        yield 0, traces.chain(0, "arn")
        raise UserError("The model is gone. Load it again.")

    _, *sent, last = map(json.loads, wire.stream(traces.race(), steps(), "run", clock=lambda: 0.0))
    assert [len(message["steps"]) for message in sent] == [1], "what came before the failure is not lost"
    assert last["end"] == "failed"
    assert last["notice"] == {"kind": "error", "text": "The model is gone. Load it again."}


def test_other_errors_are_ours_and_are_not_swallowed():
    def steps():
        yield 0, traces.chain(0, "arn")
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        list(wire.stream(traces.race(), steps(), "run"))
