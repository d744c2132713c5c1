"""Text that a model wrote itself: the examples from which its Medusa heads and its drafts learn.

Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads", section 2.3.2.
The model's hidden states come with the text and are kept: every position is then an example of its own, and an epoch
costs the heads alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from playground.analysis.repetition import GRAM
from playground.decoding.target import FINAL, TransformersTarget
from playground.errors import UserError

NO_LABEL = -100
MOST_REPEATED = 0.2  # share of 4-grams that occurred before in the same text
SHORTEST = 8  # tokens; a text that is cut to less teaches nothing but its prompt


@dataclass(frozen=True)
class Text:
    """The first `prompt` of its `ids` were given; the model wrote the others at `temperature`, 0 being greedy."""

    ids: list[int]
    prompt: int
    temperature: float


@dataclass(frozen=True)
class Writing:
    """How text is written: `new_tokens` after each prompt, the temperatures in turn, `batch` prompts at a time."""

    new_tokens: int = 64
    temperatures: tuple[float, ...] = (0.0, 1.0)
    batch: int = 128


@dataclass(frozen=True)
class TextCount:
    """What was written: texts kept, those among them that were cut where they began to repeat themselves, and texts
    of which nothing was left."""

    kept: int = 0
    cut: int = 0
    dropped: int = 0

    def __add__(self, other: TextCount) -> TextCount:
        return TextCount(self.kept + other.kept, self.cut + other.cut, self.dropped + other.dropped)

    @property
    def all(self) -> int:
        return self.kept + self.dropped


@dataclass(frozen=True)
class Positions:
    """Examples: hidden states [N, h] after the final norm, and the text's next tokens.

    `labels` [N, K]: column i is the token two plus i places on, NO_LABEL where that is not to be learned.
    `greedy` [N] tells text written greedily from sampled text.
    """

    hidden: Tensor
    labels: Tensor
    greedy: Tensor

    def __len__(self) -> int:
        return len(self.hidden)

    def rows(self, chosen: Tensor | slice) -> Positions:
        return Positions(self.hidden[chosen], self.labels[chosen], self.greedy[chosen])

    def parts(self, size: int) -> Iterator[Positions]:
        """All positions in their order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.rows(slice(start, start + size))

    def to(self, device: torch.device) -> Positions:
        return Positions(self.hidden.to(device), self.labels.to(device), self.greedy.to(device))


def write_text(
    target: TransformersTarget, prompts: Sequence[Sequence[int]], folder: Path, writing: Writing
) -> Iterator[TextCount]:
    """Let the model continue `prompts`, and keep the text with its hidden states; yields the count after each batch.

    One file per batch in `folder`; batches found there are not written again, and each has a seed of its own, so an
    interrupted run ends with the same text. A text ends before more than a fifth of its 4-grams are repetitions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    room = target.context_length - writing.new_tokens
    if room < 1:
        raise UserError(
            f"{writing.new_tokens} new tokens and a prompt do not fit into the {target.context_length} tokens that "
            f"{target.name} reads. Ask for fewer."
        )
    count = TextCount()
    for number, start in enumerate(range(0, len(prompts), writing.batch)):
        path = folder / f"{number:05}.safetensors"
        if not path.is_file():
            part = [list(prompt)[-room:] for prompt in prompts[start : start + writing.batch]]
            kinds = writing.temperatures
            temperatures = [kinds[(start + row) % len(kinds)] for row in range(len(part))]
            written = list(continue_prompts(target, part, temperatures, writing.new_tokens, seed=number))
            partial = path.with_suffix(".tmp")
            save_file(_shard(written), partial)
            os.replace(partial, path)
        count += TextCount(*load_file(path)["count"].tolist())
        yield count


@torch.inference_mode()
def continue_prompts(
    target: TransformersTarget, prompts: list[list[int]], temperatures: Sequence[float], new_tokens: int, seed: int
) -> Iterator[tuple[Text, Tensor]]:
    """What the model makes of each prompt at its own temperature, all in one batch: the text, and the hidden states
    [n - 1, h] in float16 of all its n tokens but the last. An end-of-sequence token that it wrote belongs to the text.
    """
    device, rows = target.device, len(prompts)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    width = int(lengths.max())
    generator = torch.Generator(device).manual_seed(seed)
    heat = torch.tensor(temperatures, device=device).unsqueeze(1)
    ends = torch.tensor(sorted(target.eos_ids), device=device, dtype=torch.long)
    cache = target.new_cache(rows)
    cache.reserve(width + new_tokens)

    def read(ids: Tensor, slots: Tensor, end: int) -> Tensor:
        cache.begin(slots, end)
        visible = torch.arange(end) <= slots.unsqueeze(2)
        return target.forward(ids.to(device), slots.to(device), visible.to(device), cache)[FINAL]

    # Padding stands to the right, where no row of the prompt looks and what is written next replaces it.
    ids = torch.tensor([[*prompt, *[0] * (width - len(prompt))] for prompt in prompts])
    before = read(ids, torch.arange(width).expand(rows, width), width)
    newest = before[torch.arange(rows), lengths.to(device) - 1]
    written, states = list[Tensor](), list[Tensor]()
    going = torch.ones(rows, dtype=torch.bool, device=device)
    for place in range(new_tokens):
        written.append(_choose(target.logits(newest).float(), heat, generator))
        going &= ~torch.isin(written[-1], ends)
        if place + 1 == new_tokens or not going.any():
            break
        newest = read(written[-1].unsqueeze(1), (lengths + place).unsqueeze(1), width + place + 1)[:, 0]
        states.append(newest)
    columns, prompt_states = torch.stack(written, 1).tolist(), before.to(torch.float16).cpu()
    new_states = torch.stack(states, 1).to(torch.float16).cpu() if states else prompt_states[:, :0]
    for row, (prompt, temperature) in enumerate(zip(prompts, temperatures, strict=True)):
        end = next((at + 1 for at, token in enumerate(columns[row]) if token in target.eos_ids), len(columns[row]))
        hidden = torch.cat([prompt_states[row, : len(prompt)], new_states[row, : end - 1]])
        yield Text([*prompt, *columns[row][:end]], len(prompt), temperature), hidden


def _choose(logits: Tensor, heat: Tensor, generator: torch.Generator) -> Tensor:
    """A token per row [B] of logits [B, V]: the most probable one where `heat` [B, 1] is 0, else a drawn one."""
    chosen, drawn = logits.argmax(-1), heat.squeeze(1) > 0
    if drawn.any():  # drawing from a large vocabulary takes longer than a small model's pass
        laws = (logits[drawn] / heat[drawn]).softmax(-1)
        chosen[drawn] = torch.multinomial(laws, 1, generator=generator).squeeze(1)
    return chosen


def _shard(written: Sequence[tuple[Text, Tensor]]) -> dict[str, Tensor]:
    """The texts worth keeping, one after the other: `ids` [n], `starts` [texts + 1] in it, `hidden` [n - texts, h],
    and per text the length of its `prompt` and its `temperature`."""
    kept: list[tuple[Text, Tensor]] = []
    cut = 0
    for text, hidden in written:
        new = without_repetition(text.ids[text.prompt :])
        if len(new) < min(SHORTEST, len(text.ids) - text.prompt):
            continue
        cut += len(new) < len(text.ids) - text.prompt
        length = text.prompt + len(new)
        kept.append((Text(text.ids[:length], text.prompt, text.temperature), hidden[: length - 1]))
    lengths = torch.tensor([0, *(len(text.ids) for text, _ in kept)])
    return {
        "ids": torch.tensor([token for text, _ in kept for token in text.ids], dtype=torch.long),
        "starts": lengths.cumsum(0),
        "hidden": torch.cat([hidden for _, hidden in kept] or [written[0][1][:0]]),
        "prompt": torch.tensor([text.prompt for text, _ in kept], dtype=torch.long),
        "temperature": torch.tensor([text.temperature for text, _ in kept]),
        "count": torch.tensor([len(kept), cut, len(written) - len(kept)]),
    }


def without_repetition(ids: Sequence[int], n: int = GRAM) -> list[int]:
    """The longest beginning of `ids` of whose n-grams at most a fifth occurred before in it."""
    seen: set[tuple[int, ...]] = set()
    longest = min(len(ids), n - 1)
    for end in range(n, len(ids) + 1):
        seen.add(tuple(ids[end - n : end]))
        grams = end - n + 1
        if grams - len(seen) <= MOST_REPEATED * grams:
            longest = end
    return list(ids[:longest])


def read_texts(folder: Path) -> list[Text]:
    """All texts that write_text kept in `folder`."""
    texts = []
    for path in _shards(folder):
        shard = load_file(path)
        ids = shard["ids"].tolist()
        bounds = pairwise(shard["starts"].tolist())
        for (start, end), prompt, heat in zip(
            bounds, shard["prompt"].tolist(), shard["temperature"].tolist(), strict=True
        ):
            texts.append(Text(ids[start:end], prompt, heat))
    return texts


def read_positions(folder: Path, num_heads: int, prompts: bool = False) -> Positions:
    """All positions that write_text kept in `folder`, with labels for `num_heads` heads.

    Tokens of the prompt are not to be learned, unless `prompts`.
    """
    hidden, labels, greedy = [], [], []
    for path in _shards(folder):
        shard = load_file(path)
        ids, states = shard["ids"], shard["hidden"]
        bounds = pairwise(shard["starts"].tolist())
        for number, ((start, end), prompt) in enumerate(zip(bounds, shard["prompt"].tolist(), strict=True)):
            wanted = _labels(ids[start:end], 0 if prompts else prompt, num_heads)
            used = (wanted != NO_LABEL).any(1)
            hidden.append(states[start - number : end - number - 1][used])  # a text has one state less than tokens
            labels.append(wanted[used])
            greedy.append((shard["temperature"][number] == 0).repeat(int(used.sum())))
    if not hidden or not sum(map(len, hidden)):
        raise UserError(f"There is no text in {folder}: the model must write some first, with fewer repetitions.")
    return Positions(torch.cat(hidden), torch.cat(labels), torch.cat(greedy))


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _labels(ids: Tensor, first: int, num_heads: int) -> Tensor:
    """Labels [n - 1, heads] of a text's positions but the last; tokens before `first` are none."""
    labels = torch.full((len(ids) - 1, num_heads), NO_LABEL)
    learned = ids.clone()
    learned[:first] = NO_LABEL
    for head in range(num_heads):
        ahead = 2 + head
        labels[: max(0, len(ids) - ahead), head] = learned[ahead:]
    return labels
