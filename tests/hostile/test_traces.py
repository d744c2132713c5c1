"""Traces and replies from strangers: read and drawn, or refused with a sentence."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playground.decoding.trace import read_trace, summarize
from playground.errors import UserError
from playground.ui import wire
from playground.ui.page import recorded
from playground.ui.player import export, player
from playground.ui.recordings import read_recording
from tests.hostile.wild import CONTROL, MARKUP, SPECIAL, changed, texts
from tests.ui import traces

ENDINGS = re.compile(r"</script|<!--|<script", re.IGNORECASE)


def lines_of(trace) -> list[str]:
    file = io.StringIO()
    trace.write(file)
    return file.getvalue().splitlines()


EXAMPLES = [[json.loads(line) for line in lines_of(trace)] for trace in (traces.race(), traces.served())]
BEFORE, AFTER = map(len, player())  # what an exported page holds beside the trace


def use(lines: list[str]) -> None:
    """All that the page does with a trace. Raises UserError for one that cannot be read."""
    trace = read_trace(lines)
    for lane in range(len(trace.lanes)):
        for row in {step.row for _, step in trace.order}:
            steps = trace.steps(lane, row)
            summarize(steps)
            _ = [(step.depth, step.rows_discarded, step.untold) for step in steps]
    wire.whole(trace, "run")
    again = lines_of(trace)
    assert lines_of(read_trace(again)) == again
    assert not ENDINGS.search(export(trace)[BEFORE:-AFTER])


@pytest.mark.slow
@settings(max_examples=800, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_values_of_any_kind_anywhere(data: st.DataObject) -> None:
    """Wrong types, NaN, huge and negative numbers, markup: in one line of a trace that is right otherwise."""
    rows = data.draw(st.sampled_from(EXAMPLES))
    at = data.draw(st.integers(0, len(rows) - 1))
    lines = [json.dumps(changed(data.draw, row) if number == at else row) for number, row in enumerate(rows)]
    with suppress(UserError):
        use(lines)


@settings(max_examples=200)
@given(st.lists(texts, min_size=1, max_size=4))
def test_any_text_of_tokens_prompt_and_labels(pieces: list[str]) -> None:
    """Script in token text and lone surrogates are text: they are kept, and end no script of an exported page."""
    trace = traces.race()
    for at, (_, step) in enumerate(trace.order):
        for token in step.emitted:
            token.text = pieces[at % len(pieces)]
        step.pieces = dict.fromkeys(step.pieces, pieces[at % len(pieces)])
    trace.title = trace.lanes[0].prompt = "".join(pieces)
    use(lines_of(trace))


def test_each_awkward_text_is_kept() -> None:
    for text in [*SPECIAL, *MARKUP, *CONTROL]:
        trace = traces.race()
        trace.order[0][1].emitted[0].text = text
        use(lines_of(trace))
        assert read_trace(lines_of(trace)).order[0][1].emitted[0].text == text


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300) | texts.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_file_is_a_message_for_the_stage(tmp_path, content: bytes) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(content)
    assert json.loads(recorded(file))["notice"]["kind"] == "error"


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_real_file_cut_or_overwritten_anywhere(tmp_path, data: st.DataObject) -> None:
    content = bytearray("\n".join(lines_of(traces.race())).encode())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at : at + 4] = data.draw(st.binary(min_size=1, max_size=8))
    file = tmp_path / "trace.jsonl"
    file.write_bytes(content)
    with suppress(UserError):
        read_recording(file)


def endless(kind: str) -> Iterator[str]:
    """The lines of a trace that would need far more memory than its own size."""
    header, *_ = lines_of(traces.race())
    if kind == "nested in one line":
        yield header
        yield '{"lane":0,"step":' + "[" * 3_000_000
    elif kind == "many fields":
        yield json.dumps({**json.loads(header), **dict.fromkeys(map(str, range(100_000)), 0)})
    elif kind == "one number":
        yield header
        yield '{"lane":0,"step":{"index":' + "9" * 3_000_000 + "}}"
    else:
        yield header
        yield "x" * 3_000_000


@pytest.mark.parametrize("kind", ["nested in one line", "many fields", "one number", "no JSON"])
def test_a_huge_line_is_a_short_sentence_in_little_memory(kind: str) -> None:
    lines = [*endless(kind)]
    tracemalloc.start()
    with pytest.raises(UserError) as told:
        read_trace(lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(str(told.value)) < 400
    assert peak < 150e6
