"""From prompts to heads that run: resumable at any moment, published as the official code reads them."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from playground.decoding.executor import Executor
from playground.decoding.session import Session, decode
from playground.decoding.target import TransformersTarget
from playground.drafters.medusa import Medusa
from playground.errors import UserError
from playground.models.medusa_heads import load_heads
from playground.training.gathering import Learned, Wrote
from playground.training.loop import Schedule, read_log
from playground.training.make_heads import Event, Made, Recipe, make_heads
from playground.training.medusa import HeadsPlan
from playground.training.prompts import Prompts
from playground.training.self_distillation import Writing, read_positions
from tests import published_medusa as published
from tests.tiny import tiny_target

VOCAB = 24


def target() -> TransformersTarget:
    return tiny_target("llama-tied", vocab=VOCAB)


def recipe(steps: int = 30, nodes: int | None = 12, **plan: object) -> Recipe:
    schedule = Schedule(steps, 10, warmup=5, peak=2e-2, batch_tokens=64)
    heads = HeadsPlan(schedule, num_heads=3, patience=10_000, epochs=10_000, **plan)  # type: ignore[arg-type]
    return Recipe(heads, Writing(new_tokens=16, batch=16), nodes)


def prompts() -> Prompts:
    return Prompts.split([[i % VOCAB, (i * 7) % VOCAB, (i * 5) % VOCAB] for i in range(1, 81)])


def made(events: list[Event]) -> Made:
    assert isinstance(events[-1], Made)
    return events[-1]


@pytest.fixture(scope="module", params=["shared-head", "own-vocabulary", "linear"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("heads")
    chosen = recipe(60, nodes=6, variant=request.param)
    return made(list(make_heads(target(), prompts(), chosen, folder / "work", folder / "out")))


def test_the_folder_loads_and_its_card_tells(finished: Made) -> None:
    loaded = load_heads(finished.folder)
    assert loaded.base == "tiny llama-tied"
    assert loaded.notices == []
    assert loaded.tree == finished.tree.own
    assert loaded.tree is not None
    assert loaded.tree.best() == [list(path) for path in finished.tree.paths]
    assert len(finished.tree.paths) == 6
    assert len(finished.tree.own.paths) > 6
    tables = json.loads((finished.folder / "medusa_accuracy.json").read_text())
    assert [len(table) for table in tables.values()] == [3, 3]
    card = (finished.folder / "README.md").read_text()
    assert "70 steps" in card
    assert "temperature 0 and 1" in card
    assert f"{finished.trial.mean_acceptance_length:.2f}" in card


def test_trained_heads_give_the_accepted_lengths_of_the_published_rules(finished: Made) -> None:
    base, loaded = target(), load_heads(finished.folder)
    heads = loaded.heads.float()
    assert loaded.tree is not None
    tree = [path for path in loaded.tree.best() if max(path) < published.TOP]

    @torch.no_grad()
    def hidden(text: list[int]) -> torch.Tensor:
        return base.model.base_model(input_ids=torch.tensor([text])).last_hidden_state[0, -1:]

    def next_logits(text: list[int]) -> np.ndarray:
        return base.logits(hidden(text))[0].numpy()

    def head_top(text: list[int]) -> np.ndarray:
        return heads(hidden(text), base.logits)[:, 0].topk(published.TOP).indices.numpy()

    occurred = set()
    for prompt in prompts().held_out:
        ids, lengths = published.decode(next_logits, head_top, tree, prompt, 24)
        drafter = Medusa(lambda states: heads(states, base.logits), heads.num_heads, tree)
        session = Session(Executor(base), drafter, prompt, max_new_tokens=24)
        steps = list(decode([session]))
        assert session.output == ids
        # The last step of ours is cut to the length asked for.
        assert [step.accepted for step in steps[:-1]] == lengths[: len(steps) - 1]
        occurred |= set(lengths)
    assert occurred >= {0, 1, 2}


def test_events_tell_how_far_it_is(tmp_path: Path) -> None:
    events = list(make_heads(target(), prompts(), recipe(5, nodes=None), tmp_path / "work", tmp_path / "out"))
    wrote = [event for event in events if isinstance(event, Wrote)]
    assert [event.count.all for event in wrote] == [16, 32, 48, 64, 76]
    assert {event.wanted for event in wrote} == {76}
    steps = [event.line["step"] for event in events if isinstance(event, Learned)]
    assert steps == list(range(15))
    assert set(made(events).cost or ()) >= {1, 64}
    assert 1 <= len(made(events).tree.paths) <= 63


def test_a_closed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def run(folder: Path, close_after: int | None = None) -> list[Event]:
        events = []
        running = make_heads(target(), prompts(), recipe(), folder / "work", folder / "out")
        for event in running:
            events.append(event)
            if len(events) == close_after:
                running.close()
        return events

    straight = run(tmp_path / "straight")
    for close_after in (2, 9, 20):
        run(tmp_path / "closed", close_after)
    again = run(tmp_path / "closed")
    assert made(again).tree == made(straight).tree
    assert losses(tmp_path / "closed") == losses(tmp_path / "straight")


def test_a_time_limit_is_kept_to_and_found_once(tmp_path: Path) -> None:
    limited = recipe(100_000)
    limited = Recipe(limited.plan, limited.writing, 12, minutes=0.05)
    first = make_heads(target(), prompts(), limited, tmp_path / "work", tmp_path / "out")
    steps = {event.steps for event in first if isinstance(event, Learned)}
    assert len(steps) == 1
    assert steps.pop() < 100_000
    assert (tmp_path / "out" / "config.json").is_file()
    texts = len(list((tmp_path / "work" / "seen").iterdir()))
    again = list(make_heads(target(), prompts(), limited, tmp_path / "work", tmp_path / "again"))
    assert not [event for event in again if isinstance(event, Learned)]
    assert len(list((tmp_path / "work" / "seen").iterdir())) == texts


def test_no_position_is_read_too_often(tmp_path: Path) -> None:
    schedule = Schedule(4000, 2000, batch_tokens=64)
    short = Recipe(HeadsPlan(schedule, num_heads=3, epochs=2), Writing(new_tokens=16, batch=16), 4)
    steps = [
        event.steps
        for event in make_heads(target(), prompts(), short, tmp_path / "work", tmp_path / "out")
        if isinstance(event, Learned)
    ]
    positions = len(read_positions(tmp_path / "work" / "seen", 3))
    assert steps[0] == max(10, 2 * positions // 64)


def test_text_of_another_model_is_not_learned_from(tmp_path: Path) -> None:
    first = make_heads(target(), prompts(), recipe(), tmp_path, tmp_path / "out")
    next(first)
    first.close()
    other = tiny_target("llama-tied", seed=2, vocab=VOCAB)
    with pytest.raises(UserError, match="another model"):
        next(make_heads(other, prompts(), recipe(), tmp_path, tmp_path / "out"))


def losses(folder: Path) -> list[tuple[float, float]]:
    return [(line["step"], line["loss"]) for line in read_log(folder / "work")]


def run_in_a_process(folder: Path, killed_after: int | None = None, delay: float = 0.0) -> None:
    """Killed `delay` seconds after so many events, which may be in the middle of anything."""
    torch.set_num_threads(1)
    for number, _ in enumerate(make_heads(target(), prompts(), recipe(150), folder / "work", folder / "out")):
        if number == killed_after:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        time.sleep(0.004)


@pytest.mark.slow
def test_killed_at_ten_random_moments_it_repeats_every_loss(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])

    def run(name: str, *killed: float) -> int | None:
        process = context.Process(target=run_in_a_process, args=(tmp_path / name, *killed))
        process.start()
        process.join()
        return process.exitcode

    draw = random.Random()
    assert run("whole") == 0
    for _ in range(10):
        assert run("killed", draw.randrange(100), draw.uniform(0, 0.02)) == -signal.SIGKILL
    assert run("killed") == 0
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    assert [step for step, _ in losses(tmp_path / "whole")] == list(range(160))
    heads = [load_heads(tmp_path / name / "out") for name in ("whole", "killed")]
    assert heads[0].tree == heads[1].tree
    for one, other in zip(heads[0].heads.parameters(), heads[1].heads.parameters(), strict=True):
        assert torch.equal(one, other)
