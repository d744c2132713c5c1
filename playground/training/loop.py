"""One resumable training loop, whatever is trained: the same seed gives the same losses, killed and resumed or not."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from playground.errors import UserError

Batch = TypeVar("Batch")
Rates = Callable[[str], float]

VOCABULARY_RATIO = 8  # a matrix that much taller than wide has a row per token


@dataclass(frozen=True)
class Schedule:
    """Warm-up, stable, decay ("WSD", MiniCPM, arXiv:2404.06395, section 4): a stable phase can be prolonged later.

    Lengths are in steps. Batches have `batch_tokens` tokens in all, in rows of `row_tokens`; the decay phase reads
    longer rows, so that the model has met every position it will be asked about.
    """

    stable: int
    decay: int
    warmup: int = 100
    peak: float = 3e-3
    batch_tokens: int = 4096
    row_tokens: int = 256
    decay_row_tokens: int = 1024

    @property
    def steps(self) -> int:
        return self.stable + self.decay

    def rate(self, step: int) -> float:
        """Learning rate of `step`: linear up, constant, then down to zero as 1 - sqrt."""
        if step < self.stable:
            return self.peak * min(1.0, (step + 1) / self.warmup)
        return self.peak * (1.0 - math.sqrt((step - self.stable) / self.decay))

    def shortened(self, steps: int) -> Schedule:
        """This schedule in at most `steps` steps, of which the decay keeps its share."""
        if steps >= self.steps:
            return self
        decay = max(1, steps * self.decay // self.steps)
        return replace(self, stable=steps - decay, decay=decay, warmup=min(self.warmup, max(1, steps // 10)))

    def rows(self, step: int) -> tuple[int, int]:
        """(rows, tokens per row) of the batch at `step`."""
        length = self.row_tokens if step < self.stable else self.decay_row_tokens
        return self.batch_tokens // length, length


class Batches:
    """Rows of a token stream in an order that depends on the seed and the step alone, each row once an epoch."""

    def __init__(self, ids: NDArray[np.integer], schedule: Schedule, seed: int) -> None:
        self._ids, self._schedule, self._seed = ids, schedule, seed
        self._order: tuple[tuple[int, int], NDArray[np.int64]] | None = None

    def __call__(self, step: int) -> Tensor:
        """Token ids [B, T+1] of `step`; neighbours in a row overlap by the one token that is only predicted."""
        rows, length = self._schedule.rows(step)
        first = step if step < self._schedule.stable else step - self._schedule.stable
        epoch, start = divmod(first * rows, (len(self._ids) - length - 1) // length // rows * rows)
        starts = self._starts(length, epoch)[start : start + rows]
        batch = np.stack([self._ids[s : s + length + 1] for s in starts])
        return torch.from_numpy(batch.astype(np.int64))

    def _starts(self, length: int, epoch: int) -> NDArray[np.int64]:
        if self._order is None or self._order[0] != (length, epoch):
            rng = np.random.default_rng([self._seed, length, epoch])
            shift = int(rng.integers(length))  # other cuts in every epoch
            self._order = (length, epoch), rng.permutation(np.arange(shift, len(self._ids) - length, length))
        return self._order[1]


class Optimizer:
    """Muon for the matrices inside the layers, AdamW for vocabulary matrices, norms and biases.

    Muon's updates are scaled to AdamW's size (arXiv:2502.16982, section 2.2), so one learning rate serves both. Four
    layers after 120 steps of 4,096 tokens at a rate of 3e-3: loss 5.32, against 6.44 with AdamW for everything.
    """

    def __init__(self, model: nn.Module, rates: Rates | None = None) -> None:
        """`rates` gives a parameter's name the factor of the learning rate with which it learns; 1 for all if None."""
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        inside: dict[float, list[nn.Parameter]] = {}
        others: dict[float, list[nn.Parameter]] = {}
        for name, p in model.named_parameters():
            if p.requires_grad:
                kind = inside if p.ndim == 2 and p.shape[0] < VOCABULARY_RATIO * p.shape[1] else others
                kind.setdefault(rates(name) if rates else 1.0, []).append(p)
        self._all: list[torch.optim.Optimizer] = []
        self._factors: list[list[float]] = [list(kind) for kind in (inside, others) if kind]
        if inside:
            self._all.append(torch.optim.Muon(_groups(inside), weight_decay=0.1, adjust_lr_fn="match_rms_adamw"))
        if others:
            self._all.append(torch.optim.AdamW(_groups(others), betas=(0.9, 0.95), weight_decay=0.0))

    def step(self, rate: float) -> None:
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        for optimizer, factors in zip(self._all, self._factors, strict=True):
            for group, factor in zip(optimizer.param_groups, factors, strict=True):
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, object]]:
        return [optimizer.state_dict() for optimizer in self._all]

    def load_state_dict(self, states: list[dict[str, object]]) -> None:
        for optimizer, state in zip(self._all, states, strict=True):
            optimizer.load_state_dict(state)


def _groups(parameters: dict[float, list[nn.Parameter]]) -> list[dict[str, object]]:
    return [{"params": group} for group in parameters.values()]


def training(
    model: nn.Module,
    objective: Callable[[Batch], Tensor],
    batches: Callable[[int], Batch],
    schedule: Schedule,
    folder: Path,
    *,
    validate: Callable[[], dict[str, float]] | None = None,
    validate_every: int = 500,
    patience: int | None = None,
    checkpoint_seconds: float = 90.0,
    compiled: bool = True,
    rates: Rates | None = None,
) -> Iterator[dict[str, float]]:
    """Train `model` in place up to `schedule.steps`, going on from `folder/last.pt` where there is one; yields a log
    line after every step.

    `folder/stable.pt` keeps the end of the stable phase: a longer stable phase starts from there. Losses go to
    `folder/log.jsonl`, one line a step. A process killed at any moment loses at most `checkpoint_seconds` of work and
    repeats the very same losses; closing the iterator loses nothing.

    With `patience`, training ends early once `validate()["held_out_loss"]` has not fallen for so many validations, and
    the model is left as it was when that loss was lowest. `rates` tells the optimizer who learns faster.
    """
    folder.mkdir(parents=True, exist_ok=True)
    optimizer = Optimizer(model, rates)
    first = _restore(folder, model, optimizer, schedule)
    held_out = [line["held_out_loss"] for line in _cut_log(folder / "log.jsonl", first) if "held_out_loss" in line]
    loss_of = torch.compile(objective) if compiled else objective
    saved = time.monotonic()
    with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
        for step in range(first, schedule.steps):
            if patience is not None and len(held_out) > patience and min(held_out) not in held_out[-patience:]:
                break
            started = time.monotonic()
            if step == schedule.stable:
                _save(folder / "stable.pt", model, optimizer, schedule, step)
            loss = loss_of(batches(step))
            loss.backward()
            rate = schedule.rate(step)
            optimizer.step(rate)
            line = {"step": step, "tokens": schedule.batch_tokens, "loss": loss.item(), "rate": rate}
            if validate is not None and ((step + 1) % validate_every == 0 or step + 1 == schedule.steps):
                line |= validate()
                if "held_out_loss" in line:
                    held_out.append(line["held_out_loss"])
                    if held_out[-1] == min(held_out):
                        _save(folder / "best.pt", model, optimizer, schedule, step + 1)
            line["seconds"] = round(time.monotonic() - started, 3)
            log.write(json.dumps(line) + "\n")
            log.flush()
            if time.monotonic() - saved > checkpoint_seconds or step + 1 == schedule.steps:
                _save(folder / "last.pt", model, optimizer, schedule, step + 1)
                saved = time.monotonic()
            try:
                yield line
            except GeneratorExit:
                _save(folder / "last.pt", model, optimizer, schedule, step + 1)
                raise
    if patience is not None and (folder / "best.pt").is_file():
        model.load_state_dict(torch.load(folder / "best.pt", weights_only=True)["model"])


def read_log(folder: Path) -> list[dict[str, float]]:
    """The lines of `folder/log.jsonl`, a line per step; what a kill left half written is left out."""
    lines: list[dict[str, float]] = []
    for text in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def _save(path: Path, model: nn.Module, optimizer: Optimizer, schedule: Schedule, step: int) -> None:
    """Write a checkpoint whole or not at all. `step` is the next step, which also names the next batch."""
    partial = path.with_suffix(".tmp")
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "decayed_from": schedule.stable if step > schedule.stable else None,
        "random": torch.get_rng_state(),
    }
    torch.save(state, partial)
    os.replace(partial, path)


def _restore(folder: Path, model: nn.Module, optimizer: Optimizer, schedule: Schedule) -> int:
    """Load the newest checkpoint on the way of `schedule`; return the step to go on with."""
    for name in ("last.pt", "stable.pt"):
        path = folder / name
        if not path.is_file():
            continue
        state = torch.load(path, weights_only=True)
        decayed_from = state["decayed_from"]
        if decayed_from == schedule.stable or (decayed_from is None and state["step"] <= schedule.stable):
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            torch.set_rng_state(state["random"])
            return int(state["step"])
    if (folder / "stable.pt").is_file():
        raise UserError(
            f"The stable phase in {folder} is longer than the {schedule.stable} steps asked for. "
            "Ask for a longer one, or train in an empty folder."
        )
    return 0


def _cut_log(path: Path, first: int) -> list[dict[str, float]]:
    """Drop the lines of steps that are going to be repeated; return the others."""
    if not path.is_file():
        return []
    kept = [line for line in read_log(path.parent) if line["step"] < first]
    partial = path.with_suffix(".tmp")
    partial.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    os.replace(partial, path)
    return kept
