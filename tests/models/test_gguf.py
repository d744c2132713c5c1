import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from playground.errors import UserError
from playground.models.gguf import Gguf, read_info
from tests.models.gguf_files import write_gguf

IDS = torch.tensor([[5, 17, 42, 99, 3]])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECPLAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def model(bpe):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(bpe),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=bpe.bos_token_id,
        eos_token_id=bpe.eos_token_id,
    )
    return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (Kind.F32, torch.float32),
        (Kind.F16, torch.float16),
        (Kind.BF16, torch.bfloat16),
        (Kind.Q8_0, torch.float32),
        (Kind.Q4_1, torch.float32),
    ],
)
def test_nothing_is_lost(tmp_path, bpe, model, kind, dtype):
    file = tmp_path / "tiny.gguf"
    write_gguf(file, model, bpe, kind)
    info = read_info(file)
    assert (info.architecture, info.dtype) == ("llama", dtype)
    assert info.parameters == sum(p.numel() for p in model.parameters())
    folder = Gguf(file).fetch()
    back = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name
    assert (back(IDS).logits - model(IDS).logits).abs().max() < 1e-6
    assert not hasattr(back.config, "quantization_config")
    assert back.generation_config.eos_token_id == bpe.eos_token_id


def test_the_tokenizer_comes_from_the_file(tmp_path, bpe, model):
    file = tmp_path / "tiny.gguf"
    write_gguf(file, model, bpe)
    tokenizer = AutoTokenizer.from_pretrained(Gguf(file).fetch())
    assert tokenizer.chat_template == bpe.chat_template
    assert tokenizer.eos_token_id == bpe.eos_token_id
    for text in ["The quick brown fox", "naïve ☃", "<|im_start|>user"]:
        assert tokenizer.encode(text) == bpe.encode(text)


def test_digits_are_split_where_the_file_says_smollm(tmp_path, train_byte_level, model):
    trained = train_byte_level(["a 1234 b"] * 10, size=model.config.vocab_size)
    write_gguf(tmp_path / "smol.gguf", model, trained)
    write_gguf(tmp_path / "gpt.gguf", model, trained, pre="gpt-2")
    smol, gpt = (AutoTokenizer.from_pretrained(Gguf(tmp_path / f"{n}.gguf").fetch()) for n in ("smol", "gpt"))
    assert smol.tokenize("1234") == ["1", "2", "3", "4"]
    assert gpt.tokenize(" 1234") == ["Ġ1234"]


def test_converted_once_until_the_file_changes(tmp_path, bpe, model):
    file = tmp_path / "tiny.gguf"
    write_gguf(file, model, bpe)
    source = Gguf(file)
    assert source.find() is None
    folder = source.fetch()
    assert source.find() == source.fetch() == folder
    write_gguf(file, model, bpe, Kind.Q8_0)
    assert source.find() is None


def test_sentences(tmp_path, bpe, model):
    with pytest.raises(UserError, match="no file"):
        Gguf(tmp_path / "none.gguf").fetch()
    (tmp_path / "text.gguf").write_text("hello, this is no model at all")
    with pytest.raises(UserError, match="not a whole GGUF file"):
        Gguf(tmp_path / "text.gguf").fetch()
    file = tmp_path / "tiny.gguf"
    write_gguf(file, model, bpe)
    whole = file.read_bytes()
    for part in (len(whole) // 2, len(whole) - 100, 2000, 30):
        file.write_bytes(whole[:part])
        with pytest.raises(UserError, match="not a whole GGUF file"):
            Gguf(file).fetch()
    file.write_bytes(whole.replace(b"llama", b"zzama"))
    with pytest.raises(UserError, match="transformers cannot read"):
        Gguf(file).fetch()
