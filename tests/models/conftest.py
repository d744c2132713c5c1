"""Small real tokenizers and checkpoints of several architectures, built here and loaded like anyone's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import LlamaTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SENTENCES = [
    "The quick brown fox jumps over the lazy dog while the sun goes down.",
    "def add(a, b):\n    return a + b\n",
    "How many quick foxes can jump over one lazy dog?",
] * 4


def byte_level(sentences: list[str] = SENTENCES, size: int = 330) -> PreTrainedTokenizerFast:
    """A trained byte-level BPE with ChatML control tokens, as GPT-2, Qwen and SmolLM have."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(sentences, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        chat_template=CHAT_TEMPLATE,
    )


def byte_fallback() -> LlamaTokenizer:
    """A sentencepiece-like BPE with byte fallback and a BOS token, as Llama 2 and Mistral have."""
    words = ["▁", *"abdehilnorstuw", "▁a", "hi", "▁hi", "th", "▁th", "▁the", "in", "▁in", "▁s", "un", "▁sun", "s▁"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{byte:02X}>": 3 + byte for byte in range(256)}}
    vocab |= {word: len(vocab) + at for at, word in enumerate(words)}
    merges = [("h", "i"), ("▁", "hi"), ("t", "h"), ("▁", "th"), ("▁th", "e"), ("i", "n"), ("▁", "in"), ("▁", "a")]
    merges += [("▁", "s"), ("u", "n"), ("▁s", "un"), ("s", "▁")]
    template = "{{ bos_token }}{% for m in messages %}[INST] {{ m['content'] | trim }} [/INST]{% endfor %}"
    return LlamaTokenizer(vocab=vocab, merges=merges, add_bos_token=True, chat_template=template)


@pytest.fixture(scope="session")
def train_byte_level() -> Callable[..., PreTrainedTokenizerFast]:
    return byte_level


@pytest.fixture(scope="session")
def bpe() -> PreTrainedTokenizerFast:
    return byte_level()


@pytest.fixture(scope="session")
def sentencepiece() -> LlamaTokenizer:
    return byte_fallback()


@pytest.fixture(params=["bpe", "sentencepiece"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    return request.getfixturevalue(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "model"
