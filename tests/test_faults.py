"""Runs that end badly, with every method: the trace keeps what there was, all is free again, the next run works."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
import torch

from playground.decoding.cache import KVCache
from playground.decoding.target import TransformersTarget
from playground.decoding.trace import Step, Trace, read_trace
from playground.errors import UserError
from playground.methods import METHODS
from playground.models.medusa_heads import MedusaHeads, save_heads
from playground.models.medusa_trees import OwnTree
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, open_run
from tests.models.checkpoints import SHAPE, save_checkpoint
from tests.models.conftest import byte_level
from tests.world import SMALL

CONTEXT = SHAPE["max_position_embeddings"]
PROMPT = "The quick brown fox. The quick"


class World:
    """Tiny models of every kind in a folder, and the runs on them."""

    def __init__(self, folder: Path, eos: bool = True) -> None:
        self.folder, self.store = folder, ModelStore()
        tokenizer = byte_level()
        if not eos:
            tokenizer.eos_token = None
        save_checkpoint(folder / "target", tokenizer, initializer_range=0.3)
        save_checkpoint(folder / "draft", tokenizer, initializer_range=0.3, num_hidden_layers=1)
        save_heads(MedusaHeads(32, 3), folder / "heads", "target", OwnTree([[0], [1], [0, 0]]))

    def spec(self, method: str, **rest: object) -> RunSpec:
        names = {name: str(self.folder / name) for name in ("target", "draft", "heads")}
        lane = LaneSpec(method, SMALL.get(method, {}), **names, draft_heads=names["heads"])
        return RunSpec(PROMPT, (lane,), **({"max_new_tokens": 8, "chat": False, "stop": ()} | rest))

    def run(self, method: str, **rest: object) -> Trace:
        with open_run(self.spec(method, **rest), self.store) as run:
            list(run)
        return run.trace

    def check_free(self) -> None:
        """Nobody holds a model, and whoever asks gets the device."""
        assert all(resident.leases == 0 for resident in self.store.resident())
        gate = self.store.gate(torch.device("cpu"))
        asks = Thread(target=lambda: gate.__enter__() or gate.__exit__(None, None, None), daemon=True)
        asks.start()
        asks.join(10)
        assert not asks.is_alive(), "the gate is held"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("models"))


def told(steps: list[Step]) -> list[list[tuple[int, str]]]:
    """What steps emitted."""
    return [[(token.token, token.status) for token in step.emitted] for step in steps]


def steps_of(trace: Trace) -> list[Step]:
    return [step for _, step in trace.order]


def check_trace(trace: Trace, whole: Trace) -> None:
    """`trace` is the beginning of `whole`, and can be written and read."""
    assert told(steps_of(trace)) == told(steps_of(whole))[: len(trace.order)]
    file = io.StringIO()
    trace.write(file)
    assert told(steps_of(read_trace(file.getvalue().splitlines()))) == told(steps_of(trace))


@contextmanager
def failing(at: int, fault: Callable[[dict[int, torch.Tensor]], dict[int, torch.Tensor]]) -> Iterator[list[int]]:
    """`fault` happens to what the forward number `at` gives; the forwards so far are counted."""
    forward, count = TransformersTarget.forward, [0]

    def counted(*given: object, **rest: object) -> dict[int, torch.Tensor]:
        count[0] += 1
        out = forward(*given, **rest)
        return fault(out) if count[0] == at else out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransformersTarget, "forward", counted)
        yield count


@pytest.mark.parametrize("method", METHODS)
def test_a_run_left_at_any_step(world: World, method: str) -> None:
    whole = world.run(method)
    assert len(whole.order) > 1
    for count in range(len(whole.order) + 1):
        with open_run(world.spec(method), world.store) as run:
            live = iter(run)
            for _ in range(count):
                next(live)
            live.close()
        assert len(run.trace.order) == count
        check_trace(run.trace, whole)
        world.check_free()
    assert told(steps_of(world.run(method))) == told(steps_of(whole))


@pytest.mark.parametrize("method", METHODS)
def test_memory_that_runs_out_in_any_pass(world: World, method: str) -> None:
    def fault(_: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with failing(0, fault) as count:
        whole = world.run(method)
    for at in range(1, count[0] + 1, max(1, count[0] // 4)):
        with open_run(world.spec(method), world.store) as run:
            with failing(at, fault), pytest.raises(UserError, match="The memory of this machine ran out"):
                list(run)
            assert not [held for held in gc.get_objects() if type(held) is KVCache], "the caches are free again"
        check_trace(run.trace, whole)
        world.check_free()
    assert told(steps_of(world.run(method))) == told(steps_of(whole))


@pytest.mark.parametrize(("temperature", "number"), [(0.0, float("nan")), (1.0, float("nan")), (1.0, float("inf"))])
@pytest.mark.parametrize("method", METHODS)
def test_hidden_states_that_are_no_numbers_in_any_pass(
    world: World, method: str, temperature: float, number: float
) -> None:
    """A sentence, or a run in which nobody looked at them."""

    def fault(out: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        return {layer: torch.full_like(hidden, number) for layer, hidden in out.items()}

    with failing(0, fault) as count:
        whole = world.run(method, temperature=temperature)
    failed = 0
    for at in range(1, count[0] + 1, max(1, count[0] // 5)):
        with failing(at, fault), open_run(world.spec(method, temperature=temperature), world.store) as run:
            try:
                list(run)
            except UserError as error:
                failed += "NaN" in str(error)
        check_trace(run.trace, whole)
        world.check_free()
    assert failed > 0
    assert told(steps_of(world.run(method, temperature=temperature))) == told(steps_of(whole))


@pytest.mark.parametrize("method", METHODS)
def test_a_prompt_at_the_limit_of_the_context(world: World, method: str) -> None:
    with pytest.raises(UserError, match=f"The prompt fills all {CONTEXT} tokens"):
        world.run(method, prompt_ids=tuple(range(10, 10 + CONTEXT)))
    world.check_free()
    with pytest.raises(UserError, match=f"The prompt has {CONTEXT + 1} tokens"):
        world.run(method, prompt_ids=tuple(range(10, 11 + CONTEXT)))
    world.check_free()
    last = world.run(method, prompt_ids=tuple(range(10, 9 + CONTEXT)))
    for row in {step.row for step in steps_of(last)}:
        (step,) = last.steps(0, row)
        assert len(step.emitted) == 1
        assert step.finish == "context"
    assert told(last.steps(0)) == [
        [(world.run("autoregressive", prompt_ids=tuple(range(10, 9 + CONTEXT))).steps(0)[0].emitted[0].token, "plain")]
    ]


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("endless"), eos=False)


@pytest.mark.parametrize("method", METHODS)
def test_a_tokenizer_without_an_end_of_text(endless: World, method: str) -> None:
    done = endless.run(method, max_new_tokens=CONTEXT)
    for row in {step.row for step in steps_of(done)}:
        assert done.steps(0, row)[-1].finish == "context"
        emitted = sum(len(step.emitted) for step in done.steps(0, row))
        assert emitted + len(done.lanes[0].prompt_ids) == CONTEXT
