import copy
import re

import pytest
import torch
from tokenizers import AddedToken, Regex, pre_tokenizers

from playground.models.loading import load_model
from playground.models.medusa_heads import LoadedHeads, MedusaHeads
from playground.models.pairing import check_heads, check_pair, check_prompting, shared_vocab
from playground.models.placement import Placement
from tests.models.checkpoints import save_checkpoint
from tests.models.conftest import SENTENCES

CPU = Placement(torch.device("cpu"), torch.float32)


@pytest.fixture
def load(tmp_path):
    def make(name, tokenizer, architecture="llama", **changes):
        save_checkpoint(tmp_path / name, tokenizer, architecture, **changes)
        return load_model(name, tmp_path / name, CPU)

    return make


@pytest.fixture
def big(load, bpe):
    return load("big", bpe, num_hidden_layers=6, intermediate_size=512, hidden_size=64)


def texts(findings, level="warning"):
    assert all(finding.level == level for finding in findings), findings
    return [finding.text for finding in findings]


def test_a_good_pair_has_no_finding(big, load, bpe):
    small = load("small", bpe, num_hidden_layers=1, hidden_size=16)
    assert check_pair(big, small) == []
    assert check_prompting(big) == []


def test_padded_vocabularies_are_fine(big, load, bpe):
    padded = load("padded", bpe, vocab_size=len(bpe) + 22, num_hidden_layers=1, hidden_size=16)
    assert check_pair(big, padded) == []
    assert shared_vocab(big, padded) == shared_vocab(padded, big) == len(bpe)


def test_the_first_differing_id_is_named(big, load, bpe, train_byte_level):
    other = train_byte_level(["completely other words here and there"] * 8)
    ours, theirs = ({i: t for t, i in tokenizer.get_vocab().items()} for tokenizer in (bpe, other))
    first = min(i for i in ours.keys() & theirs.keys() if ours[i] != theirs[i])
    (text,) = texts(check_pair(big, load("other", other)), "error")
    assert f"id {first} is {ours[first]!r} for the first and {theirs[first]!r} for the second" in text
    assert "Choose a draft" in text


def test_same_size_is_not_same_tokenizer(big, load, train_byte_level):
    other = train_byte_level([sentence[::-1] for sentence in SENTENCES], size=len(big.tokenizer))
    assert len(other) == len(big.tokenizer)
    assert [finding.level for finding in check_pair(big, load("other", other))] == ["error"]


def test_tokens_known_to_one_only(big, load, bpe):
    more = copy.deepcopy(bpe)
    more.add_tokens(["<think>", "</think>"])
    draft = load("more", more, num_hidden_layers=1, hidden_size=16)
    (text,) = texts(check_pair(big, draft))
    assert f"2 tokens belong to one tokenizer only, the first is id {len(bpe)} ('<think>', more)" in text


def test_specials_and_ends(big, load, bpe):
    other = copy.deepcopy(bpe)
    other.eos_token = "<|endoftext|>"
    draft = load("base", other, num_hidden_layers=1, hidden_size=16)
    found = texts(check_pair(big, draft))
    assert any("big ends a text with <|im_end|>, base with <|endoftext|>" in text for text in found)
    chatty = copy.deepcopy(bpe)
    chatty.add_special_tokens({"additional_special_tokens": [AddedToken("Ġthe", special=True)]})
    token = bpe.convert_tokens_to_ids("Ġthe")
    found = texts(check_pair(big, load("chatty", chatty, num_hidden_layers=1, hidden_size=16)))
    assert any(f"Id {token} ('Ġthe') is a special token for chatty" in text for text in found)


def test_same_tokens_split_differently(big, load, bpe):
    other = copy.deepcopy(bpe)
    other.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("."), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    found = texts(check_pair(big, load("splits", other, num_hidden_layers=1, hidden_size=16)))
    assert any("split text differently" in text for text in found)


def test_chat_templates(big, load, bpe):
    other = copy.deepcopy(bpe)
    other.chat_template = "{{ messages[0].content }}"
    (text,) = texts(check_pair(big, load("other", other, num_hidden_layers=1, hidden_size=16)))
    assert "different chat templates" in text


def test_context_and_size(big, load, bpe):
    (text,) = texts(
        check_pair(big, load("short", bpe, num_hidden_layers=1, hidden_size=16, max_position_embeddings=32))
    )
    assert "short reads 32 tokens, big 64" in text
    assert any("is not smaller than" in text for text in texts(check_pair(load("tiny", bpe), big)))
    (text,) = texts(check_pair(big, load("half", bpe, num_hidden_layers=3, intermediate_size=512, hidden_size=64)))
    assert re.search(r"only 1\.\d times smaller", text)


def test_double_bos(load, sentencepiece, big):
    (text,) = texts(check_prompting(load("llama2", sentencepiece, "mistral")))
    assert "both write <s>" in text


def test_heads(big):
    def heads(base=None, **shape):
        return LoadedHeads(MedusaHeads(**{"hidden_size": 64, "num_heads": 2} | shape), base)

    assert check_heads(big, heads()) == []
    assert check_heads(big, heads(base="somebody/big")) == []
    assert check_heads(big, heads(vocab_size=big.target.vocab_size)) == []
    (text,) = texts(check_heads(big, heads(hidden_size=32)), "error")
    assert "hidden states of size 32, but those of big have size 64" in text
    (text,) = texts(check_heads(big, heads(vocab_size=9, base="lmsys/vicuna-7b-v1.3")), "error")
    assert "score 9 tokens" in text
    assert "lmsys/vicuna-7b-v1.3" in text
    (text,) = texts(check_heads(big, heads(base="lmsys/vicuna-7b-v1.3")))
    assert "belong to lmsys/vicuna-7b-v1.3, not to big" in text
