"""What "Open trace" takes: traces, and replies of a vLLM server; everything else is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from playground.decoding.trace import Status
from playground.errors import UserError
from playground.ui.recordings import read_recording
from tests.ui import traces

REPLIES = Path(__file__).parents[1] / "remote" / "data"


def test_a_trace_is_read_as_it_was_written(tmp_path):
    for trace in (traces.race(), traces.awkward()):
        assert read_recording(traces.write(trace, tmp_path / "trace.jsonl")) == trace


def test_a_streamed_reply_has_the_roles_that_the_server_s_counts_settle():
    trace = read_recording(REPLIES / "stream.sse")
    roles = [[token.status for token in step.emitted] for step in trace.steps(0)]
    assert roles == [[Status.PLAIN], *[[Status.ACCEPTED] * 4 + [Status.BONUS]] * 3]
    assert trace.title == "stream.sse"
    assert trace.lanes[0].sampling == {}


def test_what_a_reply_does_not_tell_stays_unknown():
    (step,) = read_recording(REPLIES / "completion.json").steps(0)
    assert {token.status for token in step.emitted} == {Status.UNKNOWN}
    assert (step.nodes, step.rows, step.seconds.own) == ([], 0, 0.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "The trace file is empty"),
        ("hello", "Line 1 of the trace"),
        ('{"a": 1}', "not a trace of the playground"),
        ("[" * 100_000, "Line 1 of the trace"),
        ('{"choices": []}', "This reply holds no tokens"),
        ('{"choices": [{"text": "a"}]}', "The server does not tell token ids"),
        ('{"error": {"message": "model not found"}}', "model not found"),
        ("data: {}\n\n", "an event without a single choice"),
    ],
)
def test_other_files_are_a_sentence(tmp_path, content, said):
    file = tmp_path / "file"
    file.write_text(content)
    with pytest.raises(UserError, match=said):
        read_recording(file)


def test_a_file_that_is_no_text_or_not_there_is_a_sentence(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="it is no text"):
        read_recording(tmp_path / "binary")
    with pytest.raises(UserError, match="cannot be read"):
        read_recording(tmp_path / "nowhere")
