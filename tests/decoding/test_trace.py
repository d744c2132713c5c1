"""A trace survives being written and read; a file that is none is told so in a sentence that names the line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.decoding.trace import (
    FATES,
    ROLES,
    Emitted,
    Lane,
    Node,
    Seconds,
    Status,
    Step,
    Trace,
    Visited,
    read_trace,
    summarize,
)
from playground.errors import UserError

# --- round trip

ids = st.integers(0, 2**31)
counts = st.integers(0, 2**40)
reals = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none() | reals
texts = st.text(max_size=8) | st.sampled_from(["\u2028\u2029\x85\x1c\r\n", "\ud83d", "🧑‍🚀", '"\\\x00'])
views = st.recursive(
    st.none() | st.booleans() | st.integers() | reals | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
pairs = st.lists(st.tuples(ids, reals), max_size=3)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    fates = st.sampled_from(FATES)
    return [
        Node(draw(st.integers(-1, at - 1)), draw(ids), draw(fates), draw(texts), *(draw(maybe) for _ in range(4)))
        for at in range(draw(st.integers(0, 4)))
    ]


def steps(children: st.SearchStrategy[list[Step]]) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        index=counts,
        nodes=nodes(),
        emitted=st.lists(st.builds(Emitted, ids, st.sampled_from(ROLES), texts), max_size=3),
        cache_before=counts,
        cache_after=counts,
        rows=counts,
        row=st.integers(0, 3),
        batch=st.integers(1, 3),
        seconds=st.builds(Seconds, *[st.floats(0, 1e6)] * 6),
        reason=texts,
        finish=st.none() | texts,
        view=st.dictionaries(texts, views, max_size=3),
        children=children,
        detail=st.lists(st.builds(Visited, st.integers(-1, 3), pairs, reals, pairs, reals, pairs, reals), max_size=2),
        pieces=st.dictionaries(ids, texts, max_size=3),
    )


nested = st.recursive(steps(st.just([])), lambda inner: steps(st.lists(inner, max_size=2)), max_leaves=3)
settings_of_lanes = st.dictionaries(texts, texts | st.integers() | reals | st.booleans(), max_size=3)
lanes = st.builds(
    Lane,
    method=texts,
    title=texts,
    settings=settings_of_lanes,
    models=st.dictionaries(texts, texts, max_size=2),
    sampling=st.fixed_dictionaries({"temperature": reals, "seed": st.integers(-(2**63), 2**64 - 1)}),
    lossless=st.sampled_from(["ids", "distribution", "lossy"]),
    prompt_ids=st.lists(ids, max_size=3),
    prompt_pieces=st.lists(texts, max_size=3),
    prompt=texts,
    notices=st.lists(texts, max_size=2),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    lanes_ = draw(st.lists(lanes, min_size=1, max_size=2))
    order = draw(st.lists(st.tuples(st.integers(0, len(lanes_) - 1), nested), max_size=3))
    several = st.lists(texts, max_size=2)
    asked = (draw(counts), draw(several), draw(st.none() | st.booleans()), draw(st.none() | texts), draw(several))
    return Trace(lanes_, draw(texts), draw(texts), draw(texts), order, *asked)


def written(trace: Trace) -> str:
    file = io.StringIO()
    trace.write(file)
    return file.getvalue()


def exactly(trace: Trace) -> str:
    """Equality that tells 1 from 1.0 and True."""
    return repr(trace)


@settings(max_examples=80)
@given(traces())
def test_what_was_written_is_read_back(trace: Trace) -> None:
    text = written(trace)
    again = read_trace(text.splitlines())
    assert again == trace
    assert exactly(again) == exactly(trace)
    assert len(text.splitlines()) == 2 + len(trace.order), "one line per step, whatever the texts hold"


@settings(max_examples=10)
@given(trace=traces())
def test_the_same_through_a_file(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    path = tmp_path_factory.mktemp("trace") / "run.jsonl"
    with path.open("w", encoding="utf-8") as file:
        trace.write(file)
    with path.open(encoding="utf-8") as file:
        assert read_trace(file) == trace


def example() -> Trace:
    child = Step(0, [], [Emitted(3, Status.PLAIN, "c")], 4, 5, 1)
    step = Step(
        0,
        [Node(-1, 3, Status.ACCEPTED, "draft model", 0.5, 0.25, 0.1, 1.0), Node(0, 4, Status.REJECTED)],
        [Emitted(3, Status.ACCEPTED, "c"), Emitted(5, Status.CORRECTED, "e")],
        4,
        6,
        3,
        children=[child],
        detail=[Visited(-1, [(3, 0.5)], 0.5)],
        view={"match": [1, 2], "deep": {"a": [None, True, 1.5, "x"]}},
        pieces={3: "c"},
    )
    lane = Lane("draft-model", "Draft model", {"k": 2}, {"target": "t"}, {"temperature": 1.0, "seed": 1}, "ids", [1])
    return Trace([lane], order=[(0, step), (0, Step(1, [], [Emitted(6, Status.PLAIN)], 6, 7, 1, finish="length"))])


def test_steps_of_one_sequence_are_picked_by_lane_and_row() -> None:
    trace = example()
    trace.order.append((0, Step(0, [], [], 0, 0, 1, row=1)))
    assert [step.index for step in trace.steps(0)] == [0, 1]
    assert [step.row for step in trace.steps(0, 1)] == [1]
    assert trace.steps(1) == []


# --- files that are none


def refused(lines: list[str], saying: str) -> None:
    with pytest.raises(UserError, match=saying) as told:
        read_trace(lines)
    assert str(told.value)[-1] == "."


def test_every_truncation_is_told() -> None:
    """Cut after any line, or in the middle of any line, the file never passes for a whole one."""
    lines = written(example()).splitlines()
    for kept in range(len(lines)):
        refused(lines[:kept], "cut off" if kept else "empty")
        half = lines[kept][: len(lines[kept]) // 2]
        refused([*lines[:kept], half], rf"Line {kept + 1} of the trace is not a JSON object")


def test_a_missing_step_is_told() -> None:
    lines = written(example()).splitlines()
    refused([*lines[:1], *lines[2:]], "cut off after 1 steps")


@pytest.mark.parametrize(
    "first",
    ['{"format": "chrome-trace"}', "{}", '{"lanes": []}', '{"format": ["speculative-decoding-trace"]}'],
)
def test_a_foreign_object_is_told(first: str) -> None:
    refused([first], "not a trace of the playground")


@pytest.mark.parametrize("first", ["PK\x03\x04", "<html>", "[1, 2]", "3", '"text"', "null", "\x00", "[" * 200_000])
def test_a_foreign_file_is_told(first: str) -> None:
    refused([first], "Line 1 of the trace is not a JSON object")


def test_a_binary_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(range(256)) * 4)
    with path.open(encoding="utf-8") as file, pytest.raises(UserError, match="not a trace"):
        read_trace(file)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_told(version: object) -> None:
    lines = written(example()).splitlines()
    refused([json.dumps(json.loads(lines[0]) | {"version": version}), *lines[1:]], "version")


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        ({"lanes": None}, "line 1.lanes holds None"),
        ({"lanes": []}, "names no lane"),
        ({"lanes": {}}, "line 1.lanes"),
        ({"lanes": [3]}, r"line 1.lanes\[0\] holds 3"),
        ({"title": 3}, "line 1.title holds 3, where str belongs"),
        ({"max_new_tokens": -1}, "line 1.max_new_tokens holds -1"),
        ({"stop": "x"}, "line 1.stop holds 'x'"),
        ({"chat": 1}, "line 1.chat holds 1, where bool or NoneType belongs"),
        ({"surprise": 1}, "line 1 has a field 'surprise'"),
    ],
)
def test_a_broken_header_is_told(change: dict[str, object], saying: str) -> None:
    lines = written(example()).splitlines()
    refused([json.dumps(json.loads(lines[0]) | change), *lines[1:]], saying)


def edited(edit: Callable[[dict], None]) -> list[str]:
    """The example with its first step changed in place."""
    lines = written(example()).splitlines()
    row = json.loads(lines[1])
    edit(row)
    return [lines[0], json.dumps(row), *lines[2:]]


def repr_short(value: object) -> str:
    return repr(value)[:12]


def put(*path: object, value: object) -> Callable[[dict], None]:
    def edit(row: dict) -> None:
        at: object = row
        for key in path[:-1]:
            at = at[key]  # type: ignore[index]
        at[path[-1]] = value  # type: ignore[index]

    return edit


@pytest.mark.parametrize(
    "path",
    [
        ("step", "nodes", 0, "token"),
        ("step", "emitted", 0, "token"),
        ("step", "children", 0, "emitted", 0, "token"),
        ("step", "index"),
        ("step", "cache_before"),
        ("step", "cache_after"),
        ("step", "rows"),
        ("step", "side_rows"),
        ("step", "forwards"),
        ("step", "row"),
        ("step", "batch"),
        ("step", "detail", 0, "p", 0, 0),
        ("step", "detail", 0, "node"),
    ],
)
@pytest.mark.parametrize("value", [-2, 1.5, "3", None, True, [], 10**400], ids=repr_short)
def test_a_number_that_cannot_be_is_told(path: tuple[object, ...], value: object) -> None:
    refused(edited(put(*path, value=value)), r"(L|l)ine 2\b")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("step",), None),
        (("step",), []),
        (("step", "nodes"), {}),
        (("step", "nodes", 0), []),
        (("step", "nodes", 0, "parent"), 0),
        (("step", "nodes", 0, "parent"), -2),
        (("step", "nodes", 1, "parent"), 1),
        (("step", "nodes", 0, "status"), "wrong"),
        (("step", "nodes", 0, "status"), "bonus"),
        (("step", "nodes", 0, "status"), ["accepted"]),
        (("step", "nodes", 0, "p"), "0.5"),
        (("step", "nodes", 0, "p"), 10**400),
        (("step", "emitted", 0, "status"), "rejected"),
        (("step", "emitted", 0, "status"), "proposed"),
        (("step", "emitted", 0, "text"), 5),
        (("step", "seconds"), 1.0),
        (("step", "seconds", "draft"), -1.0),
        (("step", "seconds", "draft"), True),
        (("step", "detail", 0, "p", 0), [1]),
        (("step", "detail", 0, "p", 0), [1, 0.5, 2]),
        (("step", "pieces"), {"x": "y"}),
        (("step", "pieces"), {"-1": "y"}),
        (("step", "pieces"), {"3": 4}),
        (("step", "view"), []),
        (("step", "finish"), 1),
        (("step", "surprise"), 1),
        (("lane",), 1),
        (("lane",), -1),
        (("lane",), True),
        (("lane",), "0"),
        (("lane",), None),
    ],
)
def test_a_wrong_value_is_told(path: tuple[object, ...], value: object) -> None:
    refused(edited(put(*path, value=value)), r"(L|l)ine 2\b")


def test_a_missing_field_is_told() -> None:
    refused(edited(lambda row: row["step"].pop("nodes")), "line 2, step lacks the field 'nodes'")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_none_is_told(number: str) -> None:
    lines = written(example()).splitlines()
    assert '"p":0.5' in lines[1]
    refused([lines[0], lines[1].replace('"p":0.5', f'"p":{number}'), *lines[2:]], r"(L|l)ine 2\b")


def with_children(depth: int) -> list[str]:
    """The example with Steps nested in its Steps."""
    lines = written(example()).splitlines()
    child = json.dumps(asdict(example().order[1][1]), separators=(",", ":"))
    before, after = child.split('"children":[]')
    inner = (before + '"children":[') * depth + child + ("]" + after) * depth
    return [lines[0], lines[1].replace('"children":[]', f'"children":[{inner}]', 1), *lines[2:]]


def test_a_few_levels_of_children_are_read() -> None:
    (step,) = read_trace(with_children(5)).order[0][1].children
    for _ in range(6):
        (step,) = step.children
    assert step.children == []


@pytest.mark.parametrize("depth", [70, 900, 5000, 100_000])
def test_deep_nesting_is_told(depth: int) -> None:
    """Steps in Steps, or lists in a view: a bomb must end in a sentence, not in the interpreter's stack."""
    refused(with_children(depth), r"Line 2\b")
    lines = written(example()).splitlines()
    refused([lines[0], lines[1].replace("[1,2]", "[" * depth + "]" * depth), *lines[2:]], r"Line 2\b")


@settings(max_examples=200)
@given(st.data())
def test_damage_never_raises_anything_but_a_sentence(data: st.DataObject) -> None:
    """Characters overwritten, lines swapped or doubled: read as a trace or refused, never a traceback."""
    lines = written(example()).splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["overwrite", "double", "swap", "number"])):
            case "overwrite":
                where = data.draw(st.integers(0, len(lines[at]) - 1))
                lines[at] = (
                    lines[at][:where] + data.draw(st.sampled_from(list('{}[]",:0-9e.xN'))) + lines[at][where + 1 :]
                )
            case "double":
                lines.insert(at, lines[at])
            case "swap":
                lines[0], lines[at] = lines[at], lines[0]
            case "number":
                wild = data.draw(st.sampled_from(["-1", "1e400", "9" * 5000, "null", "{}", "[[]]"]))
                digits = [place for place, char in enumerate(lines[at]) if char.isdigit()]
                if digits:
                    where = data.draw(st.sampled_from(digits))
                    lines[at] = lines[at][:where] + wild + lines[at][where + 1 :]
    with suppress(UserError):
        written(read_trace(lines))


# --- summary


def step(drafted: int, accepted: int, forwards: int = 1, seconds: float = 0.0, **rest: object) -> Step:
    nodes = [Node(at - 1, 1, Status.ACCEPTED if at < accepted else Status.REJECTED) for at in range(drafted)]
    emitted = [Emitted(1, Status.ACCEPTED)] * accepted + [Emitted(2, Status.BONUS)]
    return Step(0, nodes, emitted, 0, 0, 1, forwards=forwards, seconds=Seconds(9.0, forward=seconds), **rest)


def test_summary_formulas() -> None:
    """The names and formulas of vLLM's per-request metrics; ours count every forward and only the lane's own time."""
    steps = [step(4, 2, forwards=3, seconds=0.5), step(0, 0, seconds=0.25), step(4, 4, seconds=0.25), step(2, 0)]
    steps[-1].finish = "length"
    found = summarize(steps)
    assert found.num_spec_steps == 3
    assert found.num_draft_tokens == 10
    assert found.num_accepted_draft_tokens == 6
    assert found.mean_acceptance_length == 1 + 6 / 3
    assert found.draft_acceptance_rate == 6 / 10
    assert found.acceptance_histogram == [1, 0, 1, 0, 1]
    assert found.per_step_accepted == [2, 4, 0]
    assert found.per_step_drafted == [4, 4, 2]
    assert found.per_step_emitted == [3, 1, 5, 1]
    assert found.target_forwards == 6
    assert found.tokens_per_target_pass == 10 / 6
    assert found.seconds == 1.0
    assert found.tokens_per_second == 10.0
    assert found.output_token_ids == [1, 1, 2, 2, 1, 1, 1, 1, 2, 2]
    assert found.finish_reason == "length"


def test_summary_without_a_guess_has_no_ratios() -> None:
    found = summarize([step(0, 0), step(0, 0)])
    assert found.mean_acceptance_length is None
    assert found.draft_acceptance_rate is None
    assert found.acceptance_histogram == []
    assert found.tokens_per_target_pass == 1.0
    assert found.tokens_per_second == 0.0


def test_summary_of_nothing() -> None:
    found = summarize([])
    assert (found.target_forwards, found.tokens_per_target_pass, found.finish_reason) == (0, 0.0, None)


def test_discarded_rows_are_those_that_left() -> None:
    assert Step(0, [], [], 10, 12, 7).rows_discarded == 5
