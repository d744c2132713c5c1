"""The tokenizer can write every string, and its cuts suit prose, numbers and Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from playground.training.tokenizer import END_OF_TEXT, train_tokenizer

CODE = "def twice(value):\n    if value:\n        return value * 2\n    return 12345\n"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer([CODE * 20, "Once upon a time, in 1905, she said it wasn't far. " * 20], 400, 128)


def test_every_byte_has_a_token(tokenizer: PreTrainedTokenizerFast) -> None:
    text = "".join(map(chr, range(256))) + "\u4e2d\U0001f600"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_token is None


@given(st.text(max_size=60).filter(lambda text: END_OF_TEXT not in text))
def test_text_survives_the_round_trip(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_digits_stand_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    assert [t for t in tokenizer.tokenize("in 1905, 12345") if t.isdigit()] == list("190512345")


def test_a_level_of_indentation_is_one_token(tokenizer: PreTrainedTokenizerFast) -> None:
    shallow = tokenizer.tokenize("    return value")
    deep = tokenizer.tokenize("        return value")
    assert len(shallow) == len(deep) == 3


def test_nothing_is_put_in_front_and_the_separator_is_id_0(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer("")["input_ids"] == []
    assert tokenizer.eos_token_id == 0
    assert tokenizer(f"a{END_OF_TEXT}")["input_ids"][-1] == 0


def test_it_loads_as_any_other_tokenizer(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded(CODE)["input_ids"] == tokenizer(CODE)["input_ids"]
    assert loaded.eos_token == END_OF_TEXT
