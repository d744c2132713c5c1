"""Prompts from strangers: text like any other, or refused with a sentence."""

from __future__ import annotations

from contextlib import suppress
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.errors import UserError
from playground.models.store import ModelStore
from playground.models.text import Pieces, StopStrings, TextStream, encode_prompt
from playground.run import LaneSpec, RunSpec, open_run
from tests.hostile.wild import SPECIAL, texts
from tests.models.conftest import byte_fallback, byte_level

TOKENIZERS = {"byte-level": byte_level(), "byte-fallback": byte_fallback()}
PIECES = {name: Pieces(tokenizer) for name, tokenizer in TOKENIZERS.items()}
MEGABYTE = 1_000_000


@settings(max_examples=1000)
@given(
    name=st.sampled_from([*TOKENIZERS]),
    text=texts,
    chat=st.sampled_from([None, True, False]),
    system=st.none() | texts,
    earlier=st.lists(texts, max_size=2),
)
def test_any_prompt(name: str, text: str, chat: bool | None, system: str | None, earlier: list[str]) -> None:
    """Ids that the tokenizer has; what a visitor typed is never a control token; every id has a label."""
    tokenizer = TOKENIZERS[name]
    with suppress(UserError):
        ids = encode_prompt(tokenizer, text, chat, system, earlier)
        assert ids
        assert all(0 <= token < len(tokenizer) for token in ids)
        "".join(PIECES[name].piece(token) for token in ids).encode()
        if chat is False and text:
            control = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
            assert not control & {*ids[ids[0] == tokenizer.bos_token_id :]}


@settings(max_examples=500)
@given(
    name=st.sampled_from([*TOKENIZERS]),
    ids=st.lists(st.integers(0, 400), max_size=20),
    stops=st.lists(texts.filter(bool), max_size=3),
)
def test_any_stop_strings(name: str, ids: list[int], stops: list[str]) -> None:
    stream, stop = TextStream(PIECES[name], stops=stops), StopStrings(PIECES[name], stops)
    shown = ("".join(stream.push(ids)) + stream.finish()).encode()
    assert not any(one.encode("utf-8", "surrogatepass") in shown for one in stops)
    if ids:
        stop(ids, len(ids))


@pytest.fixture(scope="module")
def store() -> ModelStore:
    return ModelStore()


@settings(max_examples=60)
@given(prompt=texts, stop=st.lists(texts, max_size=2))
def test_any_prompt_through_a_run(store: ModelStore, prompt: str, stop: list[str]) -> None:
    spec = RunSpec(prompt, (LaneSpec("draft-model"),), max_new_tokens=4, stop=tuple(stop), detail=True)
    with suppress(UserError), open_run(spec, store) as run:
        list(run)
        run.text(0).encode()
    assert all(resident.leases == 0 for resident in store.resident())


@pytest.mark.parametrize(
    "unit",
    ["a", " ", "\n", "word ", "\0", "é", "👩‍🚀", "0", "!?", *(f"{token} " for token in SPECIAL[:3]), "a\u0301", "<"],
    ids=ascii,
)
def test_a_megabyte_is_a_sentence_soon(store: ModelStore, unit: str) -> None:
    prompt = unit * (MEGABYTE // len(unit))
    began = process_time()
    with pytest.raises(UserError, match="reads at most 1024"):
        open_run(RunSpec(prompt, (LaneSpec("autoregressive"),)), store)
    assert process_time() - began < 60  # a bound on the order of growth, not on the machine
    assert all(resident.leases == 0 for resident in store.resident())
