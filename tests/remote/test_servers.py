"""Only servers that the operator listed, and a key that stays where it belongs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.errors import UserError
from playground.remote.servers import HOSTS, KEY, allowed_server

LISTED = {HOSTS: "localhost:8000, inference.example, [::1]:8001,10.0.0.5:443"}


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://localhost:8000", "http://localhost:8000/"),
        (" http://LOCALHOST:8000/v1/ ", "http://localhost:8000/"),
        ("http://localhost:8000/models/a/v1", "http://localhost:8000/models/a/"),
        ("https://inference.example", "https://inference.example/"),
        ("http://inference.example:80/", "http://inference.example/"),
        ("http://[::1]:8001", "http://[::1]:8001/"),
        ("https://10.0.0.5", "https://10.0.0.5/"),
    ],
)
def test_listed_hosts(address, url):
    assert str(allowed_server(address, LISTED).url) == url


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost",
        "http://localhost:8001",
        "http://localhost.:8000",
        "http://127.0.0.1:8000",
        "http://inference.example:8000",
        "http://evil.inference.example",
        "http://inference.example.evil",
        "http://10.0.0.5",
        "http://169.254.169.254/latest/meta-data",
        "http://0x7f000001:8000",
    ],
)
def test_hosts_that_are_not_listed(address):
    with pytest.raises(UserError, match=rf"not one that this playground may talk to.*{HOSTS}"):
        allowed_server(address, LISTED)


def test_nothing_is_allowed_by_default():
    with pytest.raises(UserError, match="adding localhost:8000 to the environment variable"):
        allowed_server("http://localhost:8000", {})


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("localhost:8000", "starts with http"),
        ("file:///etc/passwd", "starts with http"),
        ("", "starts with http"),
        ("http://", "names no host"),
        ("http://localhost:port", "is not the address of a server"),
        ("http://user:secret@localhost:8000", "Leave user and password out"),
        ("http://localhost:8000@evil.example", "Leave user and password out"),
        ("http://localhost:8000/?a=b", "after"),
        ("http://localhost:8000/#x", "after"),
    ],
)
def test_malformed_addresses(address, says):
    with pytest.raises(UserError, match=says) as caught:
        allowed_server(address, LISTED)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("entry", ["http://localhost:8000", "localhost:port", "a@b:1", "host/path", "[::1:80"])
def test_a_list_that_cannot_be_read_is_the_operators_to_mend(entry):
    with pytest.raises(UserError, match=HOSTS):
        allowed_server("http://localhost:8000", {HOSTS: entry})


def test_the_key_is_neither_shown_nor_echoed():
    server = allowed_server("http://localhost:8000", LISTED | {KEY: " sk-secret\n"})
    assert server.key == "sk-secret"
    assert "sk-secret" not in f"{server!r} {server} {server.name}"
    assert server.hide("bad key sk-secret!") == "bad key [key]!"


def test_a_stand_in_for_a_key_is_a_word_like_any_other():
    server = allowed_server("http://localhost:8000", LISTED | {KEY: "EMPTY"})
    assert server.hide('{"text": "EMPTY"}') == '{"text": "EMPTY"}'


def test_a_key_with_a_line_break_is_refused_without_showing_it():
    with pytest.raises(UserError, match=KEY) as caught:
        allowed_server("http://localhost:8000", LISTED | {KEY: "sk-\nsecret"})
    assert "secret" not in str(caught.value)


@given(st.text(max_size=40) | st.text(max_size=20).map("http://localhost{}".format))
def test_any_address_is_allowed_or_refused_with_a_sentence(address):
    try:
        server = allowed_server(address, LISTED)
    except UserError:
        return
    assert (server.url.host, server.url.port) in {
        ("localhost", 8000),
        ("inference.example", None),
        ("::1", 8001),
        ("10.0.0.5", None),
    }
