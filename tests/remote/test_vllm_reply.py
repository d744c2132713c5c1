"""Replies of vLLM as Steps: the two stored ones, and made ones whose truth is known."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.decoding.trace import Counts, Status, read_trace, summarize
from playground.errors import UserError
from playground.remote.vllm_reply import NO_TIMES, StepBuilder, read_reply

DATA = Path(__file__).parent / "data"
A, B, C, P, U = Status.ACCEPTED, Status.BONUS, Status.CORRECTED, Status.PLAIN, Status.UNKNOWN


def roles(steps):
    return [[token.status for token in step.emitted] for step in steps]


def event(ids, *, finish=None, stop=None, counts=None, **more):
    choice = {"index": 0, "text": "", "token_ids": ids, "finish_reason": finish, "stop_reason": stop} | more
    whole = {"model": "m", "choices": [choice]}
    return json.dumps(whole | ({"metrics": {"speculative_decoding": counts}} if counts else {}))


def detailed(accepted, drafted):
    return {
        "mean_acceptance_length": 1.0,
        "draft_acceptance_rate": 0.0,
        "acceptance_histogram": [],
        "num_spec_steps": len(accepted),
        "num_draft_tokens": sum(drafted),
        "num_accepted_draft_tokens": sum(accepted),
        "num_spec_tokens": 4,
        "per_step_accepted": accepted,
        "per_step_drafted": drafted,
    }


def build(bursts, accepted, drafted, finish="length"):
    """A reply in bursts of these sizes, with the server's lists."""
    builder, token = StepBuilder(), 0
    for at, burst in enumerate(bursts):
        last = at == len(bursts) - 1
        builder.add(event(list(range(token, token + burst)), finish=finish if last else None), float(at + 1))
        token += burst
    builder.add(json.dumps({"choices": [], "metrics": {"speculative_decoding": detailed(accepted, drafted)}}))
    builder.add("[DONE]")
    builder.close()
    return builder


def test_the_stored_stream():
    trace = read_reply((DATA / "stream.sse").read_text())
    steps = trace.steps(0)
    assert [[token.token for token in step.emitted] for step in steps] == [
        [1296],
        [1876, 582, 827, 1296, 1876],
        [582, 827, 1296, 1876, 582],
        [827, 1296, 1876, 582, 827],
    ]
    assert roles(steps) == [[P], [A, A, A, A, B], [A, A, A, A, B], [A, A, A, A, B]]
    assert "".join(token.text for step in steps for token in step.emitted) == (
        " three four one two three four one two three four one two three four one two"
    )
    assert steps[1].emitted[0].text == " four"
    assert steps[0].pieces == {1296: " three"}
    assert steps[0].view["margins"] == [pytest.approx(1.684788703918457 - 1.5324220657348633)]
    assert [step.finish for step in steps] == [None, None, None, "length"]
    assert trace.lanes[0].prompt_ids == [537, 827, 1296, 1876, 582, 827, 1296, 1876, 582, 827]
    assert trace.lanes[0].models == {"target": "smollm2"}
    assert NO_TIMES in trace.lanes[0].notices
    assert trace.machine == "vllm-0.32.0-a2d6d7d8"
    assert trace.recorded.startswith("2026-11-29T")
    counts = steps[-1].counts
    assert counts == Counts(3, 12, 12, 5.0, 1.0, [0, 0, 0, 0, 3], 4, [4, 4, 4], [4, 4, 4])
    # proposals, p and q stay unknown
    assert all(step.nodes == [] for step in steps)
    assert summarize(steps).output_token_ids == [token.token for step in steps for token in step.emitted]


def test_the_stored_whole_reply_tells_no_groups():
    trace = read_reply((DATA / "completion.json").read_text())
    (step,) = trace.steps(0)
    assert len(step.emitted) == 24
    assert roles([step]) == [[U] * 24]
    counts = step.counts
    assert (counts.num_spec_steps, counts.num_draft_tokens, counts.num_accepted_draft_tokens) == (6, 23, 16)
    assert counts.per_step_accepted == [4, 4, 4, 0, 1, 3]
    assert any("about 8 passes" in notice for notice in trace.lanes[0].notices)


@pytest.mark.parametrize("name", ["stream.sse", "completion.json"])
def test_a_stored_reply_is_a_trace_like_any_other(name):
    trace = read_reply((DATA / name).read_text(), title="a reply")
    file = io.StringIO()
    trace.write(file)
    assert read_trace(file.getvalue().splitlines()) == trace


def test_a_stream_that_was_cut_off_keeps_what_it_holds():
    text = (DATA / "stream.sse").read_text()
    trace = read_reply(text[: text.index('data: {"id"', text.index(" one two three four one"))])
    assert len(trace.steps(0)) == 3
    assert roles(trace.steps(0)) == [[U], [U] * 5, [U] * 5]
    assert any("cut off" in notice for notice in trace.lanes[0].notices)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no tokens"),
        ("hello", "holds no tokens"),
        ("{", "no JSON"),
        ("data: [1]\n\n", "no JSON object"),
        ('data: {"choices": 3}\n\n', "without a single choice"),
        ('{"choices": [{"index": 0, "message": {"content": "hi"}}]}', "does not tell token ids"),
        ('{"choices": [{"token_ids": [1], "text": "a"}, {"token_ids": [2], "text": "b"}]}', "without a single choice"),
        ('{"choices": [{"token_ids": [-1]}]}', "where a token id belongs"),
        ('{"choices": [{"token_ids": [1.5]}]}', "where a token id belongs"),
        ('{"error": {"message": "out of\\nmemory"}}', "broke off with an error: out of memory"),
        ('{"choices": [{"token_ids": [1]}], "metrics": {"speculative_decoding": {"num_spec_steps": "x"}}}', "lacks"),
        ('{"choices": [{"token_ids": [1], "logprobs": {"token_logprobs": [NaN]}}]}', "no JSON"),
    ],
)
def test_replies_that_are_none(text, says):
    with pytest.raises(UserError, match=says):
        read_reply(text)


def test_hostile_values_still_make_a_trace_that_can_be_written():
    logprobs = {"tokens": ["\ud800"], "token_logprobs": ["HUGE"], "top_logprobs": [{"a": "x", "b": None}]}
    text = event([5], text="\ud800", logprobs=logprobs, finish="stop")
    text = text.replace('"HUGE"', "1e999").replace('"model": "m"', '"created": 1e400')
    trace = read_reply(text)
    file = io.BytesIO()
    trace.write(io.TextIOWrapper(file, encoding="utf-8"))
    assert trace.steps(0)[0].view["logprobs"] == [None]


def test_text_is_dealt_out_to_the_tokens_that_spell_it():
    builder = StepBuilder()
    builder.add(event([1, 2, 3], text=".", logprobs={"tokens": [".", "<|end|>", "x"]}))
    builder.add(event([4, 5], text="held back and more", logprobs={"tokens": [" more", " still"]}))
    builder.add(event([], text=" text", finish="stop", stop="END"))
    builder.close()
    texts = [[token.text for token in step.emitted] for step in builder.steps]
    assert texts == [[".", "", ""], ["", "held back and more text"]]
    assert builder.steps[-1].finish == "stop"


@pytest.mark.parametrize(
    ("finish", "stop", "ours"),
    [("stop", None, "eos"), ("stop", 2, "eos"), ("stop", "\n", "stop"), ("length", None, "length")],
)
def test_finish_reasons_in_our_words(finish, stop, ours):
    builder = StepBuilder()
    builder.add(event([1], finish=finish, stop=stop))
    assert builder.close().finish == ours
    assert builder.complete


def test_a_step_is_handed_out_when_the_next_begins():
    builder = StepBuilder()
    assert builder.add(event([1]), 0.5) is None
    assert builder.add(event([]), 0.7) is None
    first = builder.add(event([2, 3]), 1.0)
    assert [token.token for token in first.emitted] == [1]
    assert builder.close() is builder.steps[1]
    assert [step.seconds.forward for step in builder.steps] == [0.5, 0.5]
    assert not builder.complete


def test_more_tokens_than_asked_for_are_refused():
    builder = StepBuilder(limit=3)
    builder.add(event([1, 2]))
    with pytest.raises(UserError, match="more than the 3 tokens"):
        builder.add(event([3, 4]))


@pytest.mark.parametrize(
    ("bursts", "accepted", "drafted", "expected"),
    [
        # Accepted first, then bonus if all were accepted, else corrected.
        ([1, 3, 2], [2, 1], [2, 4], [[P], [A, A, B], [A, C]]),
        # A speculative step that accepted nothing looks like one that proposed nothing ...
        ([1, 1, 1, 3], [0, 2], [4, 2], [[P], [U], [U], [A, A, B]]),
        # ... unless all or none of them are in the list.
        ([1, 1, 1, 3], [0, 0, 2], [4, 1, 2], [[P], [C], [C], [A, A, B]]),
        ([1, 1, 1, 3], [2], [2], [[P], [P], [P], [A, A, B]]),
        # What one stretch leaves open another may settle.
        ([1, 1, 2, 1, 1, 2], [1, 0, 1], [1, 4, 4], [[P], [P], [A, B], [U], [U], [A, C]]),
        # The last may be cut by the limit, within what was accepted or before the token after it.
        ([1, 2, 3], [1, 4], [1, 4], [[P], [A, B], [A, A, A]]),
        ([1, 2, 4], [1, 4], [1, 4], [[P], [A, B], [A, A, A, A]]),
        ([1, 2, 1], [1, 4], [1, 4], [[P], [A, B], [A]]),
        # One token alone comes from the prompt.
        ([1], [], [], [[P]]),
        ([1, 1, 1], [], [], [[P], [P], [P]]),
    ],
)
def test_roles_where_lists_and_bursts_agree(bursts, accepted, drafted, expected):
    builder = build(bursts, accepted, drafted)
    assert roles(builder.steps) == expected
    assert builder.notices == []
    assert all(step.reason for step in builder.steps if step.emitted[0].status in (P, U))


@pytest.mark.parametrize(
    ("bursts", "accepted", "drafted"),
    [
        ([17], [4, 4, 4, 0], [4, 4, 4, 4]),  # steps that arrived as one event, as a busy server sends them
        ([1, 17], [0, 4, 4, 4], [4, 4, 4, 4]),
        ([2, 2], [1], [1]),
        ([1, 3], [1], [1]),
        ([1, 1], [0, 0], [1, 1]),
        ([1, 2], [1], [1, 1]),  # lists of two lengths
        ([1, 2], [1], [0]),  # more accepted than drafted
        ([1], [0], [1]),
    ],
)
def test_where_they_disagree_all_stays_unknown(bursts, accepted, drafted):
    builder = build(bursts, accepted, drafted)
    assert {status for step in roles(builder.steps) for status in step} == {U}
    assert len(builder.notices) == 1
    assert builder.steps[-1].counts.per_step_accepted == accepted


def test_counts_below_nothing_are_no_counts():
    with pytest.raises(UserError, match="num_accepted_draft_tokens holds -1"):
        build([1, 2], [-1], [1])


def test_without_lists_a_server_that_proposed_nothing_is_known_to_be_plain():
    builder = StepBuilder()
    for token in range(3):
        builder.add(event([token]))
    builder.counts = Counts(0, 0, 0, source="counters")
    builder.close()
    assert roles(builder.steps) == [[P], [P], [P]]


def test_totals_alone_settle_nothing():
    builder = StepBuilder()
    for ids in ([1], [2, 3], [4]):
        builder.add(event(ids))
    builder.counts = Counts(1, 2, 1, source="counters")
    builder.close()
    assert roles(builder.steps) == [[U], [U, U], [U]]


PASS = st.none() | st.integers(1, 4).flatmap(lambda drafted: st.tuples(st.integers(0, drafted), st.just(drafted)))


@given(st.lists(PASS, max_size=12), st.integers(0, 4))
def test_roles_are_true_or_unknown(passes, cut):
    """Whatever the server did, what we say of it is what it did."""
    truth = [[P]]
    for made in passes:
        if made is None:
            truth.append([P])
        else:
            accepted, drafted = made
            truth.append([A] * accepted + [B if accepted == drafted else C])
    if len(truth) > 1:
        truth[-1] = truth[-1][: max(1, len(truth[-1]) - cut)]
    lists = [made for made in passes if made is not None]
    builder = build([len(step) for step in truth], [made[0] for made in lists], [made[1] for made in lists])
    for said, was in zip(roles(builder.steps), truth, strict=True):
        assert said == was or said == [U] * len(was), (truth, roles(builder.steps))
        if len(was) > 1:
            assert said == was


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("token_ids", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids")
CHOICES = st.dictionaries(st.sampled_from(KEYS), JSONS | st.lists(st.integers(0, 9), min_size=1, max_size=3))
EVENTS = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICES, max_size=2) | JSONS, "error": JSONS, "metrics": JSONS, "created": JSONS}
)


@given(st.lists(EVENTS.map(json.dumps) | JSONS.map(json.dumps) | st.text(), max_size=4))
def test_any_event_is_read_or_refused_with_a_sentence(events):
    builder = StepBuilder(100)
    try:
        for data in events:
            builder.add(data)
    except UserError:
        pass
    builder.close()


@given(st.text())
def test_any_file_is_read_or_refused_with_a_sentence(text):
    with pytest.raises(UserError):
        read_reply(text)
