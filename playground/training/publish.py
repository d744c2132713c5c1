"""Write a trained model the way transformers reads it: half precision, small files, a card with what was measured."""

from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase, PreTrainedTokenizerFast

MAX_FILE_SIZE = "9MB"  # plain git repositories on the hub refuse files of 10 MB and more

_CARD = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
tags: [speculative-decoding]
---
# {title}

{about}

| | |
|---|---|
{rows}

Training text: public-domain English books (github.com/mlschmitt/classic-books-markdown, commit 9448827) and the Python
standard library (PSF licence). Held-out text is whole books and whole files that no member of the family has read.
It is a toy that makes decoding methods visible: what it writes sounds like a book and means nothing.
"""


def save_half(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write `model` in float16 and its tokenizer to `folder`. `model` is left in the precision it had.

    float16, not bfloat16: the weights are far from its limits, and of a trained target's most likely tokens it changed
    0.02% instead of 0.3%.
    """
    halves = {name: tensor.to(torch.float16) for name, tensor in model.state_dict().items()}
    copy = LlamaForCausalLM(model.config).half()
    copy.load_state_dict(halves)
    copy.save_pretrained(folder, max_shard_size=MAX_FILE_SIZE)
    tokenizer.save_pretrained(folder)


def publish(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    title: str,
    about: str,
    facts: dict[str, str],
) -> None:
    """Write `model` in float16, its tokenizer and its card to `folder`."""
    save_half(model, tokenizer, folder)
    config = model.config
    shape = {
        "parameters": f"{sum(p.numel() for p in model.parameters()):,}",
        "layers x width": f"{config.num_hidden_layers} x {config.hidden_size}",
        "context": f"{config.max_position_embeddings} tokens",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in (shape | facts).items())
    (folder / "README.md").write_text(_CARD.format(title=title, about=about, rows=rows), encoding="utf-8")
