"""The loop: the same losses, killed and resumed or not; a stable phase that can be prolonged."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from playground.errors import UserError
from playground.training.loop import Batches, Schedule, read_log, training

# A model small enough that a step takes a millisecond, with both kinds of optimizer, dropout (so that the random
# state counts) and a pause in each step, so that a kill lands anywhere.
SCRIPT = """
import sys, time
from pathlib import Path
import numpy as np, torch
from torch import nn
from playground.training.loop import Batches, Schedule, training
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 16), nn.Dropout(0.2), nn.Linear(16, 50))
def objective(ids):
    time.sleep(0.01)
    return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
schedule = Schedule(stable=60, decay=20, warmup=5, peak=1e-2, batch_tokens=64, row_tokens=8, decay_row_tokens=16)
ids = np.random.default_rng(3).integers(0, 50, 3000).astype(np.uint16)
batches, folder = Batches(ids, schedule, 7), Path(sys.argv[1])
for _ in training(model, objective, batches, schedule, folder, checkpoint_seconds=0.05, compiled=False):
    pass
"""


def losses(folder: Path) -> list[tuple[int, float]]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [(line["step"], line["loss"]) for line in lines]


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_very_same_losses(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, tmp_path / "whole"], check=True)
    draw = random.Random()
    kills = 0
    while True:
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path / "killed"])
        if kills == 2:
            assert process.wait() == 0
            break
        last = tmp_path / "killed" / "last.pt"
        before = last.stat().st_mtime_ns if last.exists() else 0
        while process.poll() is None and not (last.exists() and last.stat().st_mtime_ns > before):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
        kills += 1
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    assert [step for step, _ in losses(tmp_path / "whole")] == list(range(80))


def run(folder: Path, stable: int, decay: int, stopped_at: int | None = None) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))

    def objective(ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    schedule = Schedule(stable, decay, warmup=2, peak=1e-2, batch_tokens=64, row_tokens=8, decay_row_tokens=16)
    ids = np.random.default_rng(3).integers(0, 50, 3000).astype(np.uint16)
    for _ in training(model, objective, Batches(ids, schedule, 7), schedule, folder, compiled=False):
        if stopped_at is not None and len(read_log(folder)) == stopped_at:
            break
    return model


def test_a_prolonged_stable_phase_starts_where_the_decay_began(tmp_path: Path) -> None:
    run(tmp_path / "grown", stable=10, decay=5)
    run(tmp_path / "grown", stable=20, decay=5)
    run(tmp_path / "straight", stable=20, decay=5)
    assert losses(tmp_path / "grown") == losses(tmp_path / "straight")


def test_a_run_that_is_stopped_goes_on_without_a_step_twice(tmp_path: Path) -> None:
    run(tmp_path / "stopped", stable=10, decay=5, stopped_at=4)
    assert torch.load(tmp_path / "stopped" / "last.pt", weights_only=True)["step"] == 4
    run(tmp_path / "stopped", stable=10, decay=5)
    run(tmp_path / "straight", stable=10, decay=5)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "straight")


def test_a_part_of_the_model_learns_faster(tmp_path: Path) -> None:
    model = nn.ModuleDict({"slow": nn.Linear(4, 4), "fast": nn.Linear(4, 4)})
    model["fast"].load_state_dict(model["slow"].state_dict())
    before = model["slow"].weight.detach().clone()

    def objective(_: int) -> torch.Tensor:
        return model["slow"].weight.sum() + model["fast"].weight.sum()

    schedule = Schedule(1, 0, warmup=1, peak=1e-3)
    rates = {"slow": 1.0, "fast": 4.0}
    steps = training(
        model, objective, int, schedule, tmp_path, compiled=False, rates=lambda name: rates[name.split(".")[0]]
    )
    next(steps)
    moved = {name: (model[name].weight - before).norm().item() for name in rates}
    assert moved["fast"] == pytest.approx(4 * moved["slow"], rel=0.05)


def test_a_finished_run_is_only_loaded(tmp_path: Path) -> None:
    first = run(tmp_path, stable=6, decay=3)
    written = (tmp_path / "log.jsonl").read_bytes()
    again = run(tmp_path, stable=6, decay=3)
    assert (tmp_path / "log.jsonl").read_bytes() == written
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))


def test_a_stable_phase_cannot_be_shortened(tmp_path: Path) -> None:
    run(tmp_path, stable=10, decay=5)
    with pytest.raises(UserError, match="longer than the 5 steps"):
        run(tmp_path, stable=5, decay=5)


def test_the_rate_warms_up_stays_and_falls_to_nothing() -> None:
    schedule = Schedule(stable=100, decay=50, warmup=10, peak=1.0)
    rates = [schedule.rate(step) for step in range(schedule.steps)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9:101] == [1.0] * 92
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert 0 < rates[-1] < 0.02


def test_a_shortened_schedule_keeps_the_share_of_its_decay() -> None:
    schedule = Schedule(stable=100, decay=50, warmup=40)
    short = schedule.shortened(30)
    assert (short.stable, short.decay, short.warmup, short.steps) == (20, 10, 3, 30)
    assert schedule.shortened(150) == schedule.shortened(999) == schedule


def test_an_epoch_reads_every_row_once() -> None:
    schedule = Schedule(stable=1000, decay=0, batch_tokens=40, row_tokens=10)
    batches = Batches(np.arange(411, dtype=np.uint16), schedule, seed=5)
    steps = (411 - 10 - 1) // 10 // 4
    epochs = [torch.cat([batches(e * steps + s) for s in range(steps)]) for e in (0, 1)]
    for epoch in epochs:
        assert len({int(row[0]) for row in epoch}) == len(epoch) == steps * 4
        assert all((row == torch.arange(row[0], row[0] + 11)).all() for row in epoch)
    assert not torch.equal(*epochs)


def test_batches_are_a_function_of_seed_and_step() -> None:
    schedule = Schedule(stable=1000, decay=0, batch_tokens=40, row_tokens=10)
    ids = np.arange(500, dtype=np.uint16)
    one, two = Batches(ids, schedule, seed=1), Batches(ids, schedule, seed=1)
    one(25)
    assert torch.equal(one(3), two(3))
    assert not torch.equal(one(3), Batches(ids, schedule, seed=2)(3))
