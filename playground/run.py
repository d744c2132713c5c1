"""From what a user asks for to a stream of Steps: models leased, prompts encoded, lanes raced, tokens labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from playground.decoding.sampling import Sampling
from playground.decoding.trace import Value

MOST_LANES = 8


@dataclass(frozen=True)
class LaneSpec:
    """A lane as asked for. Models are catalog ids, hub ids, folders or GGUF files; None takes the catalog's partner."""

    method: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    target: str = "built-in"
    draft: str | None = None
    heads: str | None = None
    draft_heads: str | None = None


@dataclass(frozen=True)
class RunSpec:
    """A run as asked for. `chat` None uses the chat template where the tokenizer has one.

    `companions` are the prompts of the other rows of a batched lane, repeated as needed; without them the prompt
    itself is repeated with other seeds.
    """

    prompt: str
    lanes: tuple[LaneSpec, ...]
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 1
    max_new_tokens: int = 64
    chat: bool | None = None
    system: str | None = None
    stop: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    dtype: str = "auto"
    device: str = "auto"
    detail: bool = False

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty, self.seed)
