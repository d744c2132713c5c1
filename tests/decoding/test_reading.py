"""A prompt that several sequences share is read once: the same to the bit, charged alike, and nothing of it stays."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from threading import Thread

import pytest
import torch

from playground.decoding.executor import Executor, Reading
from playground.decoding.gate import Gate
from playground.decoding.sampling import Sampling
from playground.decoding.session import PREFILL_CHUNK, Session, decode, race
from playground.decoding.table import TableTarget
from playground.decoding.target import FINAL, TargetModel, TransformersTarget
from playground.decoding.trace import Step
from playground.drafters.autoregressive import Autoregressive
from tests.decoding.test_gate import waiting
from tests.decoding.test_session import GUESSES, PROMPT, written
from tests.oracle import OracleDrafter
from tests.tiny import VOCAB, tiny_model

LONG = [(7 * at + at // 5) % VOCAB for at in range(2 * PREFILL_CHUNK + 77)]
EVERY = pytest.mark.parametrize("name", ["table", "llama", "qwen3", "mistral", "gemma3", "gpt2"])


class Counting(TransformersTarget):
    """Knows how many rows each of its forwards read."""

    def __init__(self, name: str) -> None:
        super().__init__(tiny_model(name, context=2048), eos_ids=())
        self.widths: list[int] = []

    def forward(self, ids, *rest, **named):
        self.widths.append(ids.shape[1])
        return super().forward(ids, *rest, **named)


def readers(target: TargetModel, count: int) -> list[Executor]:
    """Executors that read a prompt together."""
    executors, reading = [Executor(target) for _ in range(count)], Reading()
    for executor in executors:
        executor.reading = reading
    return executors


def written_with(executor: Executor, truth: Sequence[int], prompt: Sequence[int], needs: Sequence[int]) -> Session:
    """A session, not begun, whose drafter remembers every outcome."""
    return Session(executor, OracleDrafter(truth, GUESSES, VOCAB, needs=needs), prompt, max_new_tokens=40)


def judged(steps: Sequence[Step]) -> list[object]:
    return [(step.nodes, step.emitted, step.forwards, step.cache_after, step.rows) for step in steps]


@EVERY
@pytest.mark.parametrize("prompt", [PROMPT[:1], PROMPT[:2], PROMPT, LONG], ids=["one", "two", "short", "long"])
@pytest.mark.parametrize("together", [False, True], ids=["one after the other", "race"])
def test_who_shares_a_prompt_does_what_it_does_alone(name: str, prompt: list[int], together: bool) -> None:
    """Steps, numbers and hidden states to the bit; also where the first has ended before the second begins."""
    table = name == "table"
    target = TableTarget.random(VOCAB, 2, seed=1, sharpness=2.0) if table else Counting(name)
    needs = () if table else (0, 1)
    truth = written(target, Sampling(), prompt, new=40)
    alone = written_with(Executor(target), truth, prompt, needs)
    steps = list(decode([alone]))
    if isinstance(target, Counting):
        target.widths.clear()
    sessions = [written_with(executor, truth, prompt, needs) for executor in readers(target, 3)]
    found: list[list[Step]] = [[] for _ in sessions]
    if together:
        for at, step in race([decode([session]) for session in sessions]):
            found[at].append(step)
    else:
        found = [list(decode([session])) for session in sessions]
    for session, own in zip(sessions, found, strict=True):
        assert session.ids == truth
        assert judged(own) == judged(steps)
        assert isinstance(session.drafter, OracleDrafter)
        assert isinstance(alone.drafter, OracleDrafter)
        for ours, theirs in zip(session.drafter.outcomes, alone.drafter.outcomes, strict=True):
            assert (ours.start, ours.kept) == (theirs.start, theirs.kept)
            assert all(torch.equal(ours.hidden(layer), theirs.hidden(layer)) for layer in (FINAL, *needs))
    if isinstance(target, Counting):
        chunks = -(-(len(prompt) - 1) // PREFILL_CHUNK)
        assert len(target.widths) == chunks + 3 * len(steps), "the prompt was read once"


def test_all_are_charged_what_the_reading_took() -> None:
    first, *others = readers(Counting("llama"), 4)
    seconds = first.read({0: PROMPT}, {FINAL})[1]
    assert seconds > 0
    assert {executor.read({0: PROMPT}, {FINAL})[1] for executor in others} == {seconds}


def test_layers_that_were_not_asked_for_are_computed() -> None:
    target = Counting("llama")
    plain, curious, modest = readers(target, 3)
    given = [executor.read({0: PROMPT}, layers)[0][0] for executor, layers in [(plain, {FINAL}), (curious, {FINAL, 1})]]
    assert len(target.widths) == 2
    assert set(given[1].hidden) == {FINAL, 1}
    assert torch.equal(given[0].hidden[FINAL], given[1].hidden[FINAL])
    assert modest.read({0: PROMPT}, {FINAL, 1})[0][0] is given[1]
    assert len(target.widths) == 2


def test_nothing_is_copied_ahead_and_nothing_stays() -> None:
    target = Counting("llama")
    executors = readers(target, 3)
    assert executors[0].reading is not None
    kept = weakref.ref(executors[0].reading)
    sessions = [Session(executor, Autoregressive(), PROMPT, max_new_tokens=9) for executor in executors]
    executors[0].read({0: PROMPT[:-1]}, {FINAL})
    chunk = kept().find(0, len(PROMPT) - 1, {FINAL})
    keys = executors[0].cache.states[0].keys
    assert chunk.states[0][0].untyped_storage().data_ptr() == keys.untyped_storage().data_ptr()
    del chunk
    for at, session in enumerate(sessions):
        assert kept() is not None, "who comes later reads it"
        session.step()
        assert executors[at].reading is None
    assert kept() is None
    assert len({executor.cache.states[0].keys.untyped_storage().data_ptr() for executor in executors}) == 3


def test_who_waits_for_the_device_has_it_between_two_chunks_of_a_prompt() -> None:
    gate, order = Gate(), list[str]()

    class Visited(Counting):
        """While it reads the first chunk, somebody else comes."""

        def forward(self, ids, *rest, **named):
            order.append(f"{ids.shape[1]} rows")
            if len(order) == 1:
                visitor.start()
                waiting(gate, 2)
            return super().forward(ids, *rest, **named)

    def visit() -> None:
        with gate:
            order.append("visitor")

    visitor = Thread(target=visit)
    list(decode([Session(Executor(Visited("llama")), Autoregressive(), LONG, max_new_tokens=2)], gate))
    visitor.join()
    assert order == [f"{PREFILL_CHUNK} rows", "visitor", f"{PREFILL_CHUNK} rows", "76 rows", "1 rows", "1 rows"]
