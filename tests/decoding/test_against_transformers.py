"""Whole runs against transformers' own `generate`, on real models and on tiny ones of many architectures."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedModel
from transformers.generation.streamers import BaseStreamer

from playground.decoding.drafting import Drafter
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.target import TargetModel, TransformersTarget
from playground.decoding.trace import Step
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.draft_model import DraftModel
from playground.drafters.prompt_lookup import PromptLookup
from tests.conftest import Family
from tests.oracle import Guess, OracleDrafter
from tests.prompts import NAMES, prompt_ids
from tests.tiny import ARCHITECTURES, VOCAB, tiny_model


def generated(model: PreTrainedModel, prompt: Sequence[int], penalty: float = 1.0, new: int = 32) -> list[int]:
    """The ids that `generate` adds, greedily."""
    ids = torch.tensor([list(prompt)])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new,
        do_sample=False,
        repetition_penalty=penalty,
        pad_token_id=0,
    )
    found: list[int] = out[0, len(prompt) :].tolist()
    return found


def decoded(
    target: TargetModel, drafter: Drafter, prompt: Sequence[int], penalty: float = 1.0, new: int = 32, eos: bool = True
) -> tuple[list[int], list[Step]]:
    sampling = Sampling(repetition_penalty=penalty)
    session = Session(Executor(target), drafter, prompt, sampling, max_new_tokens=new, eos=eos)
    steps = list(decode([session]))
    return session.output, steps


@pytest.mark.parametrize("prompt_name", NAMES)
def test_greedy_output_is_that_of_generate(family: Family, prompt_name: str) -> None:
    """Without a guess, with a draft model, with prompt lookup, and with an oracle's bushy trees."""
    check_greedy(family, prompt_name, 1.0)


@pytest.mark.parametrize("prompt_name", NAMES[::3])
def test_greedy_output_with_a_penalty_is_that_of_generate(family: Family, prompt_name: str) -> None:
    check_greedy(family, prompt_name, 1.3)


def check_greedy(family: Family, prompt_name: str, penalty: float) -> None:
    target = family.target.target
    prompt = prompt_ids(prompt_name, family.target.tokenizer)
    expected = generated(family.target.model, prompt, penalty, family.tokens)
    guesses = [Guess(4, right, siblings=2, before=1) for right in (4, 2, 0)]
    drafters: dict[str, Drafter] = {
        "autoregressive": Autoregressive(),
        "prompt-lookup": PromptLookup(5, 3),
        "oracle": OracleDrafter([*prompt, *expected], guesses, target.vocab_size),
    }
    if family.draft is not None:
        drafters["draft-model"] = DraftModel(family.draft.target, Autoregressive, 4, target.vocab_size)
    for name, drafter in drafters.items():
        assert decoded(target, drafter, prompt, penalty, family.tokens)[0] == expected, name


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy_output_of_every_architecture_is_that_of_generate(name: str, penalty: float) -> None:
    """Prompts shorter and longer than the sliding window, over a draft of another architecture."""
    model = tiny_model(name)
    target = TransformersTarget(model, eos_ids=())
    draft = TransformersTarget(tiny_model("llama", seed=7), eos_ids=())
    for length in (1, 6, 40):
        prompt = [(7 * at + length) % VOCAB for at in range(length)]
        expected = generated(model, prompt, penalty, new=40)
        assert len(expected) == 40
        for drafter in (Autoregressive(), PromptLookup(3, 2), DraftModel(draft, Autoregressive, 3, VOCAB)):
            assert decoded(target, drafter, prompt, penalty, new=40)[0] == expected


# --- assisted generation, step by step


class Bursts(BaseStreamer):
    """How many tokens arrive at a time: with assisted generation one burst per verification."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        self.sizes.append(value.numel())

    def end(self) -> None:
        pass


def endless(model: PreTrainedModel) -> PreTrainedModel:
    """A copy without an end-of-text token, where assisted generation would stop drafting and we do not."""
    model = copy.deepcopy(model)
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    return model


def assisted_bursts(
    target: PreTrainedModel, draft: PreTrainedModel, prompt: Sequence[int], k: int, new: int
) -> list[int]:
    """Tokens emitted per verification by transformers: K tokens drafted each time, no confidence stop."""
    settings = draft.generation_config
    settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = k, "constant"
    settings.assistant_confidence_threshold = 0.0
    streamer, ids = Bursts(), torch.tensor([list(prompt)])
    target.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        assistant_model=draft,
        max_new_tokens=new,
        do_sample=False,
        pad_token_id=0,
        streamer=streamer,
    )
    assert streamer.sizes[0] == len(prompt)
    return streamer.sizes[1:]


def check_acceptance(target: PreTrainedModel, draft: PreTrainedModel, prompt: list[int], k: int, new: int) -> list[int]:
    """Our accepted count per step is transformers', but for the step that the length cap cuts."""
    theirs = assisted_bursts(target, draft, prompt, k, new)
    drafter = DraftModel(TransformersTarget(draft), Autoregressive, k, draft.get_output_embeddings().weight.shape[0])
    _, steps = decoded(TransformersTarget(target), drafter, prompt, new=new, eos=False)
    ours = [len(step.emitted) for step in steps]
    assert ours[:-1] == theirs[: len(ours) - 1]
    assert sum(theirs) == sum(ours) == new
    return [count - 1 for count in ours[:-1]]


def noisy(model: PreTrainedModel, scale: float) -> PreTrainedModel:
    """A draft for a model without a smaller sibling: the same with a little noise on its weights."""
    draft = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += scale * torch.randn(weight.shape, generator=generator)
    return draft


@pytest.mark.parametrize("k", [1, 3, 5])
def test_acceptance_per_step_is_that_of_assisted_generation(family: Family, k: int) -> None:
    target = endless(family.target.model)
    draft = endless(family.draft.model if family.draft else noisy(target, 0.002))
    accepted = []
    for prompt_name in NAMES[::4]:
        accepted += check_acceptance(target, draft, prompt_ids(prompt_name, family.target.tokenizer), k, family.tokens)
    assert max(accepted) >= min(k, 3), "drafts that are right for long"
    if family.draft:
        assert 0 in accepted, "drafts that fail at once"


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt2"])
def test_acceptance_per_step_on_tiny_models(name: str, k: int) -> None:
    """The draft is the target with a little noise on its weights, so that it is right now and then."""
    target = copy.deepcopy(tiny_model(name))
    draft = noisy(target, 0.02)
    accepted = []
    for length in (1, 9):
        accepted += check_acceptance(target, draft, [(5 * at + 2) % VOCAB for at in range(length)], k, 60)
    assert {0, k} <= set(accepted)
