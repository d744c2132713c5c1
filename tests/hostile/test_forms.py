"""What the page, programs and links may say about a run: understood, or refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.errors import UserError
from playground.models.store import ModelStore
from playground.run import RunSpec, open_run
from playground.ui.form import DEFAULTS, run_spec
from playground.ui.link import read_link, write_link
from playground.ui.measure import read_order
from playground.ui.proof import prove
from tests.hostile.wild import NUMBERS, changed, texts, values

FORM = list(DEFAULTS.values())
LANES = [
    "draft-model;k=4", "medusa;tree=[[0],[1]]", "lookahead;window=3;pool_from_prompt=on", "vllm;server=http://a",
    "jacobi", "naive-batching;batch=64", "medusa-draft;acceptance=typical",
]  # fmt: skip
fragments = st.sampled_from([*LANES, ";", "=", "k", "[[", "]]", ",", "batch", "tree", *map(str, NUMBERS[:-1])]) | texts
lane_texts = st.lists(fragments, max_size=5).map("".join)
pairs = st.tuples(st.just("lane"), lane_texts) | st.tuples(
    st.sampled_from([*DEFAULTS]) | texts, texts | st.sampled_from([*map(str, NUMBERS)]) | st.integers().map(str)
)


class NoModels(ModelStore):
    """Everything up to the models; nothing is loaded, fetched or asked for."""

    def lease(self, *args: object, **kwargs: object) -> object:
        raise UserError("A model was asked for.")


def opened(spec: RunSpec) -> None:
    with suppress(UserError), open_run(spec, NoModels(), allow_local=False):
        pass


@settings(max_examples=800)
@given(st.lists(pairs, max_size=6))
def test_any_link(query: list[tuple[str, str]]) -> None:
    with suppress(UserError):
        found = read_link(query)
        if found is not None:
            opened(run_spec(*found))
            again = write_link(found)
            assert again.isascii()


@settings(max_examples=600)
@given(st.data())
def test_any_values_of_the_controls(data: st.DataObject) -> None:
    """What a program may send in place of what the controls hold."""
    with suppress(UserError):
        given = changed(data.draw, DEFAULTS)
        opened(run_spec(*(given.get(name) for name in DEFAULTS)))


@pytest.mark.parametrize("at", range(len(FORM)), ids=[*DEFAULTS])
def test_every_control_with_every_kind_of_value(at: int) -> None:
    for value in [None, [], {}, [[]], {"a": []}, "", "\ud800", b"", *NUMBERS]:
        with suppress(UserError):
            opened(run_spec(*FORM[:at], value, *FORM[at + 1 :]))


PLACE = {
    "method": "draft-model",
    "settings": {"k": 4},
    "models": {"target": "built-in"},
    "sampling": {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": 1},
    "prompt_ids": [5, 6, 7],
    "dtype": "float32",
    "residual": True,
    "first_seed": 1,
}


def refused(spec: RunSpec) -> Iterator[None]:
    opened(spec)
    raise UserError("Not run here.")


@settings(max_examples=500)
@given(st.data())
def test_any_place_to_prove(data: st.DataObject) -> None:
    *_, last = map(json.loads, prove(changed(data.draw, PLACE), refused))
    assert last["error"]


ORDER = {
    "lanes": "draft-model k=2|4\nmedusa", "name": "q.jsonl", "text": "{}", "rounds": 3, "limit": 4, "length": 64,
    "reference": False, "drop": True, "afresh": False,
}  # fmt: skip


@settings(max_examples=300)
@given(st.data(), values)
def test_any_order_of_a_benchmark(data: st.DataObject, lanes: object) -> None:
    with suppress(UserError):
        read_order(changed(data.draw, ORDER), lanes, ["built-in", None, None, None])
