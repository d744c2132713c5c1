"""Where texts begin: what is held out stays held out, whatever the prompts are."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from playground.decoding.target import TransformersTarget
from playground.errors import UserError
from playground.training import prompts as prompts_module
from playground.training.corpus import read_books, split_held_out
from playground.training.prompts import Prompts, apart_from, corpus_prompts, file_prompts, own_prompts
from playground.training.tokenizer import train_tokenizer
from tests.tiny import tiny_model

CODE = [f"def function_{i}(x):\n    return x + {i}\n" * 20 for i in range(300)]
TEMPLATE = (
    "{% for m in messages %}<user>{{ m.content }}</user>{% endfor %}{% if add_generation_prompt %}<model>{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(["the old fox ran over hill and river", *CODE[:20]], 400, 160)


def test_passages_come_from_books_and_code_and_held_out_ones_from_held_out_documents(
    shelf: Path, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts_module, "read_standard_library", lambda: CODE)
    found = corpus_prompts(tokenizer, shelf, count=100)
    assert len(found.seen) == 100
    assert len(found.held_out) == 5
    assert all(16 <= len(ids) <= 64 for ids in (*found.seen, *found.held_out))
    documents = [split_held_out(read_books(shelf)), split_held_out(CODE)]
    for part, passages in enumerate((found.seen, found.held_out)):
        texts = [document for kind in documents for document in kind[part]]
        for ids in passages:
            assert any(tokenizer.decode(ids) in text for text in texts)
    code = [ids for ids in found.seen if "return" in tokenizer.decode(ids)]
    assert len(code) == 20
    assert corpus_prompts(tokenizer, shelf, count=100) == found
    alone = corpus_prompts(tokenizer, None, count=10)
    assert all("function_" in tokenizer.decode(ids) or "return" in tokenizer.decode(ids) for ids in alone.seen)


def test_files_of_prompts(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    lines = tmp_path / "prompts.txt"
    lines.write_text("the fox\n\nover hill\n")
    found = file_prompts(tokenizer, lines)
    assert [tokenizer.decode(ids) for ids in (*found.held_out, *found.seen)] == ["the fox", "over hill"]
    objects = tmp_path / "prompts.jsonl"
    objects.write_text('{"prompt": "the fox"}\n{"question_id": 1, "turns": ["over hill", "and"]}\n')
    assert file_prompts(tokenizer, objects) == found
    objects.write_text('{"prompt": "the fox"}\n{"prompt": 3}\n')
    with pytest.raises(UserError, match="Line 2"):
        file_prompts(tokenizer, objects)
    lines.write_text("the fox\n")
    with pytest.raises(UserError, match="at least two"):
        file_prompts(tokenizer, lines)
    lines.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UserError, match="cannot be read"):
        file_prompts(tokenizer, lines)


def test_what_is_measured_with_is_not_trained_on(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    file = tmp_path / "measured.jsonl"
    file.write_text('{"question_id": 1, "turns": ["Hello", "One two, three four five six seven EIGHT nine!"]}\n')
    texts = ["so: two three four five six seven eight nine", "one two three four five six seven and eight", "Hello"]
    ids = [tokenizer.encode(text) for text in texts]
    assert apart_from(Prompts(ids, ids[:1]), tokenizer, [file]) == Prompts(ids[1:], [])


def test_prompts_are_kept(tmp_path: Path) -> None:
    prompts = Prompts([[1, 2], [3]], [[4]])
    prompts.write(tmp_path / "new" / "prompts.json")
    assert Prompts.read(tmp_path / "new" / "prompts.json") == prompts


def test_prompts_of_one_length_are_read_together() -> None:
    lengths = [(7 * i) % 40 + 1 for i in range(64)]
    found = Prompts([[i] * length for i, length in enumerate(lengths)], [[0] * 5, [1] * 3]).alike(8)
    lots = [[len(ids) for ids in found.seen[start : start + 8]] for start in range(0, 64, 8)]
    assert sorted(ids[0] for ids in found.seen) == list(range(64))
    assert sum(max(lot) for lot in lots) == sum(sorted(lengths)[7::8])
    assert [lot[0] for lot in lots] != sorted(lot[0] for lot in lots)
    assert found.held_out == [[1] * 3, [0] * 5]


def test_a_model_writes_its_own_prompts(tokenizer: PreTrainedTokenizerFast) -> None:
    target = TransformersTarget(tiny_model("llama-tied", vocab=len(tokenizer)), "tiny", eos_ids=(0,))
    found = own_prompts(target, tokenizer, 40, tokens=8)
    everything = [*found.seen, *found.held_out]
    assert len(found.held_out) == 2
    assert {ids[0] for ids in everything} == {0}
    assert max(map(len, everything)) == 9
    assert len(set(map(tuple, everything))) > 30


def test_a_chat_model_speaks_as_its_user(tokenizer: PreTrainedTokenizerFast) -> None:
    target = TransformersTarget(tiny_model("llama-tied", vocab=len(tokenizer)), "tiny", eos_ids=(0,))
    chatty = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<|endoftext|>")
    chatty.chat_template = TEMPLATE
    for ids in own_prompts(target, chatty, 6, tokens=8).seen:
        text = chatty.decode(ids)
        assert text.startswith("<user>")
        assert text.endswith("</user><model>")
        assert len(text) > len("<user></user><model>")


def test_a_model_without_a_first_token_needs_prompts(tokenizer: PreTrainedTokenizerFast) -> None:
    target = TransformersTarget(tiny_model("llama-tied", vocab=len(tokenizer)), "tiny", eos_ids=())
    with pytest.raises(UserError, match="in a file"):
        own_prompts(target, tokenizer, 4)
