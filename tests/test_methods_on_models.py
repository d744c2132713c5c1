"""Every method on real architectures: tiny random models, the built-in family, SmolLM2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.target import TargetModel, TransformersTarget
from playground.decoding.trace import Step, summarize
from playground.errors import UserError
from playground.methods import METHODS, LaneModels, Method
from playground.models.catalog import load_catalog
from playground.models.medusa_heads import MedusaHeads
from playground.models.medusa_trees import OwnTree
from playground.models.store import ModelStore
from tests.test_methods import check_steps
from tests.tiny import ARCHITECTURES, tiny_model
from tests.world import SMALL, TREE, baseline, run_method

EVERY = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
TINY = sorted(ARCHITECTURES)
PROMPT = [5, 9, 5, 9, 5, 9, 7, 5, 9, 7, 5, 9]
GREEDY, PENALISED, SAMPLED = Sampling(seed=2), Sampling(repetition_penalty=1.3, seed=2), Sampling(0.9, seed=2)
SMALL_SAMPLED = Sampling(0.7, top_k=20, top_p=0.95, seed=2)


def untrained_heads(target: TransformersTarget, count: int = 3) -> Callable[[Tensor], Tensor]:
    """Heads that all say what the language-model head says: right wherever a text repeats one token."""
    heads = MedusaHeads(target.head.weight.shape[1], count).to(target.head.weight.dtype)
    return lambda hidden: heads(hidden, target.logits)


def near_twin(model: PreTrainedModel) -> TransformersTarget:
    """A draft that often agrees: the same model with a little noise on its weights."""
    model = deepcopy(model)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * parameter.std().nan_to_num() * torch.randn(parameter.shape, generator=generator)
    return TransformersTarget(model, "draft")


def with_everything(target: TransformersTarget, draft: TransformersTarget) -> LaneModels:
    return LaneModels(
        target,
        draft,
        heads=untrained_heads(target),
        num_heads=3,
        draft_heads=untrained_heads(draft),
        num_draft_heads=3,
        tree=OwnTree(TREE),
        draft_tree=OwnTree(TREE),
    )


@pytest.fixture(scope="module", params=TINY)
def tiny(request: pytest.FixtureRequest) -> LaneModels:
    return with_everything(
        TransformersTarget(tiny_model(request.param), request.param), near_twin(tiny_model(request.param))
    )


def supported(method: Method, models: LaneModels) -> bool:
    """Early exit needs a Llama-like stack of layers; where that is missing the refusal is a sentence."""
    if method.id != "early-exit" or hasattr(models.target.base, "layers"):
        return True
    with pytest.raises(UserError, match="cannot exit early"):
        method.build(models, method.check(SMALL["early-exit"]))
    return False


@EVERY
def test_output_is_the_autoregressive_one(method: Method, tiny: LaneModels) -> None:
    if not supported(method, tiny):
        return
    for sampling in (GREEDY, PENALISED, SAMPLED):
        session, steps = run_method(method, tiny, PROMPT, sampling)
        check_steps(steps)
        if method.promise(method.check({}), sampling.greedy) == "ids":
            assert session.output == baseline(tiny, PROMPT, sampling), sampling
        assert session.executor.cache.lengths[0] == len(session.ids) - 1


@EVERY
def test_the_last_positions_of_the_context_work(method: Method, tiny: LaneModels) -> None:
    if not supported(method, tiny):
        return
    prompt = [3 + at % 50 for at in range(tiny.target.context_length - 9)]
    session, steps = run_method(method, tiny, prompt, GREEDY, max_new_tokens=100)
    assert steps[-1].finish == "context"
    assert len(session.ids) == tiny.target.context_length
    assert session.output == baseline(tiny, prompt, GREEDY, max_new_tokens=9)


def batched(method: Method, models: LaneModels, prompts: list[list[int]], sampling: Sampling) -> list[Session]:
    """The prompts in one executor, each ending at another length."""
    settings = method.check(SMALL.get(method.id, {}))
    executor = Executor(models.target, len(prompts))
    sessions = [
        Session(executor, method.build(models, settings), prompt, sampling, max_new_tokens=8 + 5 * row, row=row)
        for row, prompt in enumerate(prompts)
    ]
    for step in decode(sessions):
        assert step.batch <= len(prompts)
    return sessions


@EVERY
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_batched_rows_equal_solo_runs(method: Method, tiny: LaneModels, sampling: Sampling) -> None:
    if not supported(method, tiny):
        return
    prompts = [PROMPT, [7, 7, 7], [4, 8, 15, 16, 23, 42, 4, 8, 15]]
    for row, session in enumerate(batched(method, tiny, prompts, sampling)):
        solo, _ = run_method(method, tiny, prompts[row], sampling, max_new_tokens=8 + 5 * row)
        assert session.output == solo.output, row


@dataclass(frozen=True)
class Trained:
    """A trained target with what else the methods need, and a prompt on which each of them is right now and then."""

    models: LaneModels
    prompt: list[int]
    length: int
    exit_layer: int
    known: dict[Sampling, list[int]] = field(default_factory=dict)

    def baseline(self, sampling: Sampling) -> list[int]:
        """What autoregressive decoding emits, worked out once."""
        if sampling not in self.known:
            self.known[sampling] = baseline(self.models, self.prompt, sampling, max_new_tokens=self.length)
        return self.known[sampling]


@pytest.fixture(scope="module", params=["built-in", pytest.param("smollm2-135m", marks=pytest.mark.slow)])
def trained(request: pytest.FixtureRequest) -> Iterator[Trained]:
    store, parts = ModelStore(), load_catalog().parts(request.param)
    with ExitStack() as held:
        target = held.enter_context(store.lease(parts.target, "float32", "cpu"))
        if parts.draft is not None:
            draft = held.enter_context(store.lease(parts.draft, "float32", "cpu")).target
            text = "The cat sat on the mat. The dog sat on the mat. The cat sat on the mat. The dog sat"
            yield Trained(with_everything(target.target, draft), target.tokenizer.encode(text), 48, exit_layer=3)
        else:  # nothing was trained to draft for it: a twin drafts, and the 22 of a count suits untrained heads
            models = with_everything(target.target, near_twin(target.model))
            count = ", ".join(str(number) for number in range(1, 15)) + ","
            yield Trained(models, target.tokenizer.encode(count), 40, exit_layer=20)


@EVERY
def test_on_trained_models(method: Method, trained: Trained) -> None:
    models, prompt, length = trained.models, trained.prompt, trained.length
    for sampling in (GREEDY, PENALISED, SMALL_SAMPLED):
        settings: dict[str, object] = {"exit_layer": trained.exit_layer} if method.id == "early-exit" else {}
        session, steps = run_method(method, models, prompt, sampling, settings=settings, max_new_tokens=length)
        check_steps(steps)
        if method.promise(method.check({}), sampling.greedy) == "ids":
            assert session.output == trained.baseline(sampling), sampling
        if sampling is GREEDY and method.id not in ("autoregressive", "naive-batching"):
            assert accepted(steps) > 0, "on a text that repeats itself, every method is right now and then"


def accepted(steps: list[Step]) -> int:
    return summarize(steps).num_accepted_draft_tokens


def test_the_models_of_these_tests_differ(tiny: LaneModels) -> None:
    """Target and draft must disagree somewhere: else nothing would ever be rejected."""
    target: TargetModel = tiny.target
    assert isinstance(target, TransformersTarget)
    assert isinstance(tiny.draft, TransformersTarget)
    assert not torch.equal(target.head.weight, tiny.draft.head.weight)
