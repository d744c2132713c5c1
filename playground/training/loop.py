"""One resumable training loop, whatever is trained: the same seed gives the same losses, killed and resumed or not."""

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from playground.errors import UserError

Objective = Callable[[Tensor], Tensor]  # token ids [B, T+1] -> loss, a scalar


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

    def rows(self, step: int) -> tuple[int, int]:
        """(rows, tokens per row) of the batch at `step`."""
        length = self.row_tokens if step < self.stable else self.decay_row_tokens
        return self.batch_tokens // length, length


class Batches:
    """Rows of a token stream in an order that depends on the seed and the step alone, each row once an epoch."""

    def __init__(self, ids: NDArray[np.uint16], schedule: Schedule, seed: int) -> None:
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
    """Muon for the matrices inside the layers, AdamW for embeddings, norms and biases.

    Muon's updates are scaled to AdamW's size (arXiv:2502.16982, section 2.2), so one learning rate serves both.
    """

    def __init__(self, model: nn.Module) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
        inside = set(map(id, matrices))
        others = [p for _, p in named if id(p) not in inside]
        self._all: list[torch.optim.Optimizer] = []
        if matrices:
            self._all.append(torch.optim.Muon(matrices, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"))
        if others:
            self._all.append(torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0))
        self._parameters = [p for _, p in named]

    def step(self, rate: float) -> None:
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        for optimizer in self._all:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, object]]:
        return [optimizer.state_dict() for optimizer in self._all]

    def load_state_dict(self, states: list[dict[str, object]]) -> None:
        for optimizer, state in zip(self._all, states, strict=True):
            optimizer.load_state_dict(state)


def train(
    model: nn.Module,
    objective: Objective,
    batches: Callable[[int], Tensor],
    schedule: Schedule,
    folder: Path,
    *,
    validate: Callable[[], dict[str, float]] | None = None,
    validate_every: int = 500,
    checkpoint_seconds: float = 90.0,
    compiled: bool = True,
) -> None:
    """Train `model` in place up to `schedule.steps`, going on from `folder/last.pt` where there is one.

    `folder/stable.pt` keeps the end of the stable phase: a longer stable phase starts from there. Losses go to
    `folder/log.jsonl`, one line a step. A process killed at any moment loses at most `checkpoint_seconds` of work and
    repeats the very same losses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    optimizer = Optimizer(model)
    first = _restore(folder, model, optimizer, schedule)
    _cut_log(folder / "log.jsonl", first)
    loss_of = torch.compile(objective) if compiled else objective
    saved = time.monotonic()
    with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
        for step in range(first, schedule.steps):
            started = time.monotonic()
            if step == schedule.stable:
                _save(folder / "stable.pt", model, optimizer, schedule, step)
            loss = loss_of(batches(step))
            loss.backward()
            optimizer.step(schedule.rate(step))
            line: dict[str, float] = {"step": step, "loss": loss.item(), "rate": schedule.rate(step)}
            if validate is not None and ((step + 1) % validate_every == 0 or step + 1 == schedule.steps):
                line |= validate()
            line["seconds"] = round(time.monotonic() - started, 3)
            log.write(json.dumps(line) + "\n")
            log.flush()
            if time.monotonic() - saved > checkpoint_seconds or step + 1 == schedule.steps:
                _save(folder / "last.pt", model, optimizer, schedule, step + 1)
                saved = time.monotonic()


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


def _cut_log(path: Path, first: int) -> None:
    """Drop the lines of steps that are going to be repeated, and a last line that a kill left half written."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            step = json.loads(line)["step"]
        except json.JSONDecodeError:
            break
        if step >= first:
            break
        kept.append(line + "\n")
    partial = path.with_suffix(".tmp")
    partial.write_text("".join(kept), encoding="utf-8")
    os.replace(partial, path)
