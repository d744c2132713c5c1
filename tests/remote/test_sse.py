"""Server-sent events, however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.errors import UserError
from playground.remote.sse import LARGEST_EVENT, EventParser

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n\r\n"
    b"event: token\r\nid: 7\r\ndata: one\r\n\r\n"
    b"data:two\rdata: lines\r\r"
    b"data\n\n"
    b"retry: 10\n\n"
    b"data:  sp\xc3\xa4t \n\n"
    b"data: cut off"
)
EVENTS = ["one", "two\nlines", "", " spät "]


def parse(chunks):
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_fields_comments_and_line_ends():
    assert parse([STREAM]) == EVENTS


def test_one_byte_at_a_time():
    assert parse([STREAM[at : at + 1] for at in range(len(STREAM))]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted))
def test_any_cuts(cuts):
    ends = [0, *cuts, len(STREAM)]
    assert parse([STREAM[start:end] for start, end in pairwise(ends)]) == EVENTS


def test_an_event_is_handed_out_when_it_ends_and_not_later():
    parser = EventParser()
    assert parser.feed(b"data: 1\n") == []
    assert parser.feed(b"\n") == ["1"]
    assert parser.feed(b"data: 2\r\r") == ["2"]
    assert parser.feed(b"\ndata: 3\r\n\r") == ["3"]
    assert parser.feed(b"\n") == []


def test_bytes_that_are_no_text_are_marked():
    assert parse([b"data: \xff\n\n"]) == ["\N{REPLACEMENT CHARACTER}"]


@pytest.mark.parametrize("line", [b"data: " + b"x" * 65_536 + b"\n", b"y" * 65_536])
def test_an_endless_event_is_refused(line):
    parser = EventParser()
    with pytest.raises(UserError, match=f"more than {LARGEST_EVENT} bytes"):
        [parser.feed(line) for _ in range(32)]
    parser = EventParser()
    for _ in range(32):
        parser.feed(b"data: " + b"x" * 65_536 + b"\n\n")
