"""Text that a model wrote itself, as training examples for its Medusa heads.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads", section 2.3.2.
The model's hidden states are computed once and kept: every position is then an example of its own, and an epoch costs
the heads alone.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GenerationMixin, PreTrainedModel

from playground.errors import UserError

NO_LABEL = -100
MOST_REPEATED = 0.2  # share of 4-grams that occurred before in the same text


@dataclass(frozen=True)
class Positions:
    """Examples: hidden states [N, h] after the final norm, and the text's next tokens.

    `labels` [N, K]: column i is the token two plus i places on, NO_LABEL beyond the end of the text.
    `greedy` [N] tells text written greedily from sampled text.
    """

    hidden: Tensor
    labels: Tensor
    greedy: Tensor

    def rows(self, chosen: Tensor | slice) -> "Positions":
        return Positions(self.hidden[chosen], self.labels[chosen], self.greedy[chosen])

    def parts(self, size: int) -> Iterator["Positions"]:
        """All positions in their order, `size` at a time."""
        for start in range(0, len(self.hidden), size):
            yield self.rows(slice(start, start + size))

    def to(self, device: torch.device) -> "Positions":
        return Positions(self.hidden.to(device), self.labels.to(device), self.greedy.to(device))


@dataclass(frozen=True)
class TextCount:
    """What self-distillation wrote: texts kept, and texts left out because they repeat themselves."""

    kept: int
    repetitive: int


@torch.no_grad()
def write_text(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    folder: Path,
    *,
    new_tokens: int = 128,
    batch: int = 64,
) -> TextCount:
    """Let `model` continue `prompts`, in turn greedily and sampled at temperature 1. Keep its hidden states.

    One file per batch in `folder`; batches found there are not written again, and each has a seed of its own, so an
    interrupted run ends with the same text. Texts in which more than a fifth of the 4-grams repeat are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = repetitive = 0
    for number, start in enumerate(range(0, len(prompts), batch)):
        path = folder / f"{number:05}.safetensors"
        part = prompts[start : start + batch]
        if not path.is_file():
            torch.manual_seed(number)
            texts = [*_continue(model, part[::2], new_tokens, True), *_continue(model, part[1::2], new_tokens, False)]
            partial = path.with_suffix(".tmp")
            save_file(_examples(model, texts), partial)
            os.replace(partial, path)
        starts = load_file(path)["starts"]
        kept += len(starts)
        repetitive += len(part) - len(starts)
    return TextCount(kept, repetitive)


@dataclass(frozen=True)
class _Text:
    ids: list[int]
    prompt: int  # tokens of it
    greedy: bool


def _continue(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], new_tokens: int, greedy: bool
) -> Iterator[_Text]:
    """What the model makes of `prompts`; an end-of-sequence token that it wrote belongs to the text."""
    if not isinstance(model, GenerationMixin):
        raise UserError(f"{type(model).__name__} cannot write text: Medusa heads need a causal language model.")
    if not prompts:
        return
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=model.device)
    seen = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    ends = model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else list(ends or [])
    # The model's own defaults may bend the distribution; here it counts as it is.
    plain = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
    written = model.generate(
        ids,
        attention_mask=seen,
        max_new_tokens=new_tokens,
        repetition_penalty=1.0,
        pad_token_id=ends[0] if ends else 0,
        do_sample=not greedy,
        **({} if greedy else plain),
    )
    for prompt, row in zip(prompts, written[:, width:].tolist(), strict=True):
        length = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        yield _Text([*prompt, *row[:length]], len(prompt), greedy)


def _examples(model: PreTrainedModel, texts: list[_Text]) -> dict[str, Tensor]:
    """The texts worth keeping, from the last prompt token on: `ids` [n], `hidden` [n, h], `greedy` [n], and the
    `starts` of the texts. All labels then lie in what the model wrote itself.
    """
    good = [text for text in texts if repeated_share(text.ids[text.prompt :]) <= MOST_REPEATED]
    width = max((len(text.ids) for text in good), default=1)
    # Padding stands to the right, where causal attention never looks. Where nothing is kept, one text gives the shapes.
    padded = [text.ids + [0] * (width - len(text.ids)) for text in good or texts[:1]]
    batch = torch.tensor(padded, device=model.device)
    states = model.base_model(input_ids=batch, use_cache=False).last_hidden_state.to(torch.float16).cpu()
    kept = torch.zeros(batch.shape, dtype=torch.bool)
    for row, text in enumerate(good):
        kept[row, text.prompt - 1 : len(text.ids)] = True
    lengths = kept.sum(1)
    return {
        "ids": batch.cpu()[kept],
        "hidden": states[kept],
        "greedy": torch.tensor([text.greedy for text in good], dtype=torch.bool).repeat_interleave(
            lengths[: len(good)]
        ),
        "starts": (lengths.cumsum(0) - lengths)[: len(good)],
    }


def repeated_share(ids: Sequence[int], n: int = 4) -> float:
    """Share of the n-grams of `ids` that occurred before in it; 0 for a text without one."""
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def read_positions(folder: Path, num_heads: int) -> Positions:
    """All positions that write_text kept in `folder`, with labels for `num_heads` heads."""
    hidden, labels, greedy = [], [], []
    for path in sorted(folder.glob("*.safetensors")):
        shard = load_file(path)
        hidden.append(shard["hidden"])
        labels.append(_labels(shard["ids"], shard["starts"], num_heads))
        greedy.append(shard["greedy"])
    if not hidden or not sum(map(len, hidden)):
        raise UserError(f"There is no text in {folder}: the model must write some first, with fewer repetitions.")
    return Positions(torch.cat(hidden), torch.cat(labels), torch.cat(greedy))


def _labels(ids: Tensor, starts: Tensor, num_heads: int) -> Tensor:
    number = torch.zeros(len(ids), dtype=torch.long)
    number[starts] = 1
    text = number.cumsum(0)
    labels = torch.full((len(ids), num_heads), NO_LABEL)
    for head in range(num_heads):
        ahead = 2 + head
        same = text[ahead:] == text[: len(ids) - ahead]
        labels[: len(same), head][same] = ids[ahead:][same]
    return labels
