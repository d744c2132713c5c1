"""Training text: what is read, what is held out, what is cached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from playground.errors import UserError
from playground.training import corpus as corpus_module
from playground.training.corpus import (
    encode_documents,
    prepare_corpus,
    read_books,
    read_standard_library,
    split_held_out,
    with_more_code,
)
from playground.training.tokenizer import train_tokenizer


def test_books_lose_their_front_matter_and_their_twins(shelf: Path) -> None:
    books = read_books(shelf)
    assert len(books) == 300  # book 149 is in both files
    assert not any("Title:" in book or "----" in book for book in books)
    assert all(book.endswith(".") for book in books)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"children\.txt\.xz"):
        read_books(tmp_path)


def test_held_out_documents_are_whole_and_few() -> None:
    documents = [f"{i} " * (50 + i) for i in range(500)]
    train, held = split_held_out(documents)
    assert sorted(train + held) == sorted(documents)
    share = sum(map(len, held)) / sum(map(len, documents))
    assert 0.01 <= share < 0.015


def test_the_choice_of_what_is_held_out_does_not_depend_on_order() -> None:
    documents = [f"document {i}" for i in range(300)]
    assert set(split_held_out(documents)[1]) == set(split_held_out(documents[::-1])[1])


def test_the_standard_library_comes_without_tests() -> None:
    files = read_standard_library()
    assert any("def fill(text, width=70" in text for text in files)  # textwrap.py
    assert not any(text.startswith("import unittest\n\nclass Test") for text in files)
    assert len(set(files)) == len(files) > 200


def test_a_corpus_is_prepared_once(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = [f"def f{i}(x):\n    return x + {i}\n" for i in range(400)]
    monkeypatch.setattr(corpus_module, "read_standard_library", lambda: code)
    first = prepare_corpus(shelf, tmp_path / "work", vocab_size=400, max_length=128)
    monkeypatch.setattr(corpus_module, "read_standard_library", lambda: pytest.fail("read again"))
    again = prepare_corpus(shelf, tmp_path / "work", vocab_size=400, max_length=128)
    assert np.array_equal(first.train, again.train)
    text = first.tokenizer.decode(first.held_code.ids, skip_special_tokens=True)
    assert len(text.encode()) == first.held_code.num_bytes > 0
    assert text not in first.tokenizer.decode(first.train, skip_special_tokens=True)
    assert len(first.held_books.head(100).ids) == 100
    assert 0 < first.held_books.head(100).num_bytes < first.held_books.num_bytes


def test_more_code_is_code_to_train_on(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = [f"def f{i}(x):\n    return x + {i}\n" for i in range(400)]
    monkeypatch.setattr(corpus_module, "read_standard_library", lambda: code)
    corpus = prepare_corpus(shelf, tmp_path / "work", vocab_size=400, max_length=128)
    more = with_more_code(corpus)
    assert np.array_equal(more.train[: len(corpus.train)], corpus.train)
    added = more.tokenizer.decode(more.train[len(corpus.train) :]).split("<|endoftext|>")[:-1]
    assert added == 3 * split_held_out(code)[0]
    assert more.held_code is corpus.held_code


def test_documents_end_with_the_separator() -> None:
    tokenizer = train_tokenizer(["a b c"], 300, 64)
    ids = encode_documents(tokenizer, ["a b", "", "c"])
    assert tokenizer.decode(ids) == "a b<|endoftext|><|endoftext|>c<|endoftext|>"
