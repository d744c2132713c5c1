"""A run as one file: it holds the very trace, no token can end its script, and the browser reads it."""

from __future__ import annotations

import re

from playground.decoding.trace import read_trace
from playground.ui import wire
from playground.ui.player import export, player
from tests.ui import traces

HELD = re.compile(r'<script type="application/jsonl" id="trace">(.*?)</script>', re.DOTALL)


def test_the_file_holds_the_trace():
    for trace in (traces.awkward(), traces.race()):
        (held,) = HELD.findall(export(trace))
        assert read_trace(held.strip().split("\n")) == trace


def test_tokens_and_sources_cannot_leave_their_script():
    page = export(traces.awkward())
    assert page.count("<script") == page.count("</script") == 3
    assert "<!--" not in page
    assert "<img" not in page


def test_nothing_is_left_to_fill_in_and_nothing_is_fetched():
    page = "".join(player())
    body = page[page.index("<body") :]
    assert not re.search(r"\b(STYLES|HEADER|STAGE|PLOTLY|SCRIPT|TRACE)\b", body)
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|img|script)[^>]*\b(src|href)=", page)


def test_the_browser_reads_a_trace_file_as_it_reads_the_wire(in_node, tmp_path):
    body = """
    const read = (message) => { const { run, ...rest } = log.receive(log.emptyLog(), message); return rest; };
    result = given.map(([file, wire]) => [read(log.fileMessage(file, 'a')), read(JSON.parse(wire))]);
    """
    runs = [traces.awkward(), traces.of_method("lookahead", 1.0), traces.of_method("medusa-draft")]
    files = [traces.write(run, tmp_path / "trace.jsonl").read_text() for run in runs]
    for file, sent in in_node(body, [[file, wire.whole(run, "b")] for file, run in zip(files, runs, strict=True)]):
        assert file == sent


def test_the_browser_refuses_a_cut_file(in_node, tmp_path):
    file = traces.write(traces.race(), tmp_path / "trace.jsonl").read_text()
    body = "try { log.fileMessage(given, 'a'); } catch (error) { result = error.message; }"
    for cut in (file.rsplit("\n", 2)[0], file.replace('{"end":14}', '{"end":15}')):
        assert "cut off" in in_node(body, cut)
