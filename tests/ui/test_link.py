"""A link restores the form, and a link that cannot be used is a sentence."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.errors import UserError
from playground.methods import METHODS
from playground.run import get_kind
from playground.ui.form import DEFAULTS
from playground.ui.link import LONGEST, read_link, write_link


def read(query):
    return read_link(parse_qsl(query.removeprefix("?"), keep_blank_values=True))


def form(**given):
    return list((DEFAULTS | given).values())


def lane(name, **settings):
    return {"method": name, "settings": get_kind(name).check(settings)}


def test_only_what_differs_from_the_defaults_is_in_the_link():
    link = write_link(form(prompt="Hi, you", lane=[lane("draft-model", k=6), lane("jacobi")], seed=3))
    assert link == "?prompt=Hi,%20you&lane=draft-model;k=6&lane=jacobi&seed=3"
    assert read(link) == form(prompt="Hi, you", lane=[lane("draft-model", k=6), lane("jacobi")], seed=3)


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_lanes = st.lists(
    st.sampled_from(
        [
            lane("medusa", tree="[[0],[0, 0],[1]]", acceptance="typical", posterior_threshold=0.3),
            lane("lookahead", window=3, pool_from_prompt=False, compatible=True),
            lane("vllm", server="https://host:8000/a;b=c", model="owner/name & more"),
            *(lane(name) for name in METHODS),
        ]
    ),
    min_size=1,
    max_size=4,
)


@given(
    _text,
    _lanes,
    _text,
    _text,
    st.integers(1, 10**6),
    st.just(0) | st.floats(0.01, 100),
    st.integers(0, 2**64 - 1),
    st.floats(0.01, 1),
)
def test_any_form_comes_back(prompt, lanes, system, models, length, temperature, seed, top_p):
    given = form(
        prompt=prompt, lane=lanes, system=system, models=models, length=length, temperature=temperature, seed=seed,
        top_p=top_p, chat="off", stop="\n\nEnd & more; #1\n",
    )  # fmt: skip
    assert read(write_link(given)) == given


def test_a_long_prompt_is_refused_with_advice():
    with pytest.raises(UserError, match="save the trace instead"):
        write_link(form(prompt="word " * LONGEST))


def test_names_that_are_not_the_form_s_are_left_alone():
    assert read("?__theme=dark&lesson=why&step=2&room=race&utm_source=x") is None
    assert read("?__theme=dark&seed=4") == form(seed=4)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("lane=telepathy", "no method called 'telepathy'"),
        ("lane=", "no method called ''"),
        ("lane=draft-model;k=0", "k is 0"),
        ("lane=draft-model;k", "k is ''"),
        ("lane=draft-model;__class__=x", "no setting called '__class__'"),
        ("lane=medusa;tree=[[", "tree"),
        ("lane=jacobi&" * 5, "it has 5 lanes"),
        ("temperature=hot", "temperature is 'hot'"),
        ("temperature=-1", "temperature"),
        ("temperature=nan", "Temperature holds nan"),
        ("seed=1e999", "Seed holds inf"),
        ("seed=1.5", "Seed is 1.5"),
        ("length=" + "9" * 5000, "length is"),
        ("top_p=7", "top_p"),
        ("prompt=" + "x" * (LONGEST + 1), "more than 6,000 characters"),
        ("seed=<script>alert(1)</script>", "must be a number"),
    ],
)
def test_a_hostile_link_is_a_sentence(query, said):
    with pytest.raises(UserError, match="This link cannot be used") as refused:
        read(query)
    assert said in str(refused.value)


@pytest.mark.parametrize("given", [{"prompt": "\ud800"}, {"lane": [lane("vllm", model="\ud800")]}, {"stop": "\udfff"}])
def test_what_is_no_unicode_is_in_no_link(given):
    with pytest.raises(UserError, match="no Unicode text, which no link can carry"):
        write_link(form(**given))
