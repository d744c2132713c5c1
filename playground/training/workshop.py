"""Training for those who watch: one at a time, in the background, and what it learned stays when they leave."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from secrets import token_hex
from threading import Lock

from playground.decoding.codec import JSON, decode_value
from playground.errors import UserError
from playground.jobs import Jobs
from playground.models.cache import cache_dir
from playground.models.catalog import Catalog, Entry
from playground.models.loading import LoadedModel
from playground.models.sources import Folder
from playground.models.store import ModelStore
from playground.training.gathering import Learned, Wrote
from playground.training.loop import Schedule, read_log
from playground.training.make_heads import Event, Made, Recipe, make_heads
from playground.training.medusa import VARIANTS, HeadsPlan
from playground.training.prompts import Prompts, corpus_prompts, own_prompts
from playground.training.self_distillation import Writing

LEAST_MINUTES, MOST_MINUTES = 0.05, 60.0
MOST_HEADS = 4
MOST_STEPS = 4000
BATCH = 512  # positions
PROMPTS = 800  # that the model writes itself
OWN_TOKENS = 8  # of each
CODE_PROMPTS = 400  # beside them, for a model that is no chat model
NODES = 64  # the largest tree that is looked at
# Mostly greedy, as most races are; small batches, since races wait for one at most.
WRITING = Writing(new_tokens=64, temperatures=(0.0, 0.0, 1.0), batch=32)
POINTS = 300  # of the loss that are told
KIND = "training"


@dataclass(frozen=True)
class Order:
    """What a visitor asks for: heads for the target of `family`."""

    family: str
    minutes: float = 2.0
    heads: int = 4
    variant: str = "own-vocabulary"

    def __post_init__(self) -> None:
        if not LEAST_MINUTES <= self.minutes <= MOST_MINUTES:
            raise UserError(
                f"A training here takes {LEAST_MINUTES:g} to {MOST_MINUTES:g} minutes, not {self.minutes:g}."
            )
        if not 1 <= self.heads <= MOST_HEADS:
            raise UserError(f"1 to {MOST_HEADS} heads can be trained here, not {self.heads}.")
        if self.variant not in VARIANTS:
            raise UserError(f"There are no {self.variant!r} heads. Choose one of {', '.join(VARIANTS)}.")


@dataclass
class State:
    """What there is to see. `phase`: idle, loading, writing, learning, judging, done, paused, failed.

    `loss` holds [step, loss], thinned; `checks` [step, held-out loss, top-1 accuracy of head 1, of head 2, ...].
    """

    run: str = ""
    phase: str = "idle"
    order: Order | None = None
    done: int = 0
    of: int = 0
    seconds: int = 0
    loss: list[list[float]] = field(default_factory=list)
    checks: list[list[float]] = field(default_factory=list)
    result: dict[str, JSON] | None = None
    error: str = ""


class Workshop:
    """Trains Medusa heads for the families of `catalog`, whose finished heads get a name in `self.catalog`."""

    def __init__(self, store: ModelStore, catalog: Catalog, home: Path | None = None, jobs: Jobs | None = None) -> None:
        self.store, self.home, self._jobs = store, home or cache_dir() / "trained-here", jobs or Jobs()
        self.catalog = replace(catalog, heads={**catalog.heads, **self._entries(catalog)})
        self._lock = Lock()
        self._state = State()

    def families(self) -> list[tuple[str, str]]:
        """(id, title) of the families whose target is on this machine."""
        return [(one.id, one.title) for one in self.catalog.families.values() if one.target.source.find() is not None]

    def start(self, order: Order, visitor: str, afresh: bool = False) -> None:
        """Begin, or go on with what was paused unless `afresh`. Raises UserError while another job runs."""
        if order.family not in dict(self.families()):
            raise UserError(f"{order.family!r} is no family of models on this machine. Fetch it first.")

        def prepare() -> Callable[[], None]:
            wanted = None if afresh else self.paused(order.family)
            if wanted is None:
                shutil.rmtree(self._folder(order.family) / "work", ignore_errors=True)
            chosen = wanted or order
            with self._lock:
                self._state = State(run=token_hex(4), phase="loading", order=chosen)
            return lambda: self._work(chosen)

        what = f"Heads for {order.family} are being trained"
        self._jobs.start(KIND, what, visitor, prepare, lambda wrong: self._change("failed", wrong))

    def stop(self, visitor: str) -> None:
        """Pause: a checkpoint is kept. Raises UserError for a training that somebody else watches over."""
        self._jobs.stop(KIND, visitor)

    def paused(self, family: str) -> Order | None:
        """The order that was begun for `family` and not finished."""
        file = self._folder(family) / "work" / "order.json"
        try:
            return decode_value(Order, json.loads(file.read_text(encoding="utf-8")), str(file))
        except (OSError, ValueError):
            return None

    def watch(self, visitor: str) -> Iterator[dict[str, JSON]]:
        """The state now, and after every change while a training runs."""
        return self._jobs.watch(KIND, visitor, lambda: self.view(visitor))

    def view(self, visitor: str) -> dict[str, JSON]:
        """The state for a visitor, who is told whether the training is theirs, and what could be resumed and used."""
        with self._lock:
            state = asdict(self._state)
        state["loss"] = thinned(state["loss"], POINTS)
        titles = dict(self.families())
        return state | {
            "families": decode_value(dict[str, JSON], titles, "families"),
            "mine": self._jobs.owns(KIND, visitor),
            "paused": {family: asdict(order) for family in titles if (order := self.paused(family))},
            "trained": {
                family: trained_name(family) for family in titles if (self._heads(family) / "config.json").is_file()
            },
        }

    def _work(self, order: Order) -> None:
        began = time.monotonic()
        work = self._folder(order.family) / "work"
        with self.store.lease(self.catalog.families[order.family].target.source) as model:
            gate = self.store.gate(model.target.device)
            work.mkdir(parents=True, exist_ok=True)
            (work / "order.json").write_text(json.dumps(asdict(order)), encoding="utf-8")
            events = self._events(order, model, work, gate)
            while (event := _next(events, gate)) is not None:
                self._take(event, work, time.monotonic() - began)
                if self._jobs.halted and not isinstance(event, Made):
                    events.close()
                    self._change("paused")
                    return
        shutil.rmtree(work, ignore_errors=True)
        self._change("done")

    def _events(
        self, order: Order, model: LoadedModel, work: Path, gate: AbstractContextManager[None]
    ) -> Generator[Event, None, None]:
        schedule = Schedule(MOST_STEPS * 2 // 3, MOST_STEPS // 3, 50, 3e-3, batch_tokens=BATCH)
        recipe = Recipe(HeadsPlan(schedule, order.heads, 1, order.variant), WRITING, None, False, order.minutes)
        kept = work / "prompts.json"
        if not kept.is_file():
            with gate:
                _beginnings(model).write(kept)
        return make_heads(model.target, Prompts.read(kept), recipe, work, self._heads(order.family))

    def _take(self, event: Event, work: Path, seconds: float) -> None:
        with self._lock:
            state = self._state
            state.seconds = int(seconds)
            match event:
                case Wrote(count, wanted):
                    state.phase, state.done, state.of = "writing", count.all, wanted
                case Learned(line, steps):
                    if state.phase != "learning":  # what an earlier part of a resumed run learned
                        for old in read_log(work)[:-1]:
                            _note(state, old)
                    _note(state, line)
                    state.phase, state.done, state.of = "learning", int(line["step"]) + 1, steps
                case Made():
                    state.result = _told(event)
                case _:
                    state.phase = "judging"

    def _change(self, phase: str, error: str = "") -> None:
        with self._lock:
            self._state = replace(self._state, phase=phase, error=error)

    def _folder(self, family: str) -> Path:
        return self.home / family

    def _heads(self, family: str) -> Path:
        return self._folder(family) / "heads"

    def _entries(self, catalog: Catalog) -> dict[str, Entry]:
        """Names for what will be trained here: a page that strangers use takes no paths."""
        return {
            (name := trained_name(family.id)): Entry(
                id=name,
                source=Folder(self._heads(family.id), name),
                revision=None,
                licence=family.target.licence,
                parameters=None,
                gated=False,
                run_here=True,
                model=family.target.id,
            )
            for family in catalog.families.values()
        }


def trained_name(family: str) -> str:
    """What the heads field takes."""
    return f"{family}-trained-here"


def thinned(points: list[list[float]], most: int) -> list[list[float]]:
    """At most `most` of the points, the last one among them."""
    every = -(-len(points) // most) or 1
    return points[::-1][::every][::-1]


def _next(events: Iterator[Event], gate: AbstractContextManager[None]) -> Event | None:
    with gate:  # a training step is a computation like any other: races and it take turns
        return next(events, None)


def _beginnings(model: LoadedModel) -> Prompts:
    """Prompts that need no corpus: the model's own, and Python where it is no chat model."""
    own = own_prompts(model.target, model.tokenizer, PROMPTS, tokens=OWN_TOKENS)
    if model.tokenizer.chat_template is not None:
        return own
    code = corpus_prompts(model.tokenizer, None, CODE_PROMPTS)
    every = len(own.seen) // len(code.seen)
    mixed = chain.from_iterable(
        (*own.seen[at * every : (at + 1) * every], passage) for at, passage in enumerate(code.seen)
    )
    return Prompts(list(mixed), [*own.held_out, *code.held_out])


def _note(state: State, line: dict[str, float]) -> None:
    state.loss.append([line["step"] + 1, line["loss"]])
    if "held_out_loss" in line:
        right = [share for name, share in line.items() if name.startswith("accuracy_")]
        state.checks.append([line["step"] + 1, line["held_out_loss"], *right])


def _told(made: Made) -> dict[str, JSON]:
    tops = {
        name: [[sum(head[:top]) for top in (1, 3, 5, 10)] for head in table] for name, table in made.accuracy.items()
    }
    return {
        "nodes": len(made.tree.paths),
        "expected": made.tree.tokens_per_pass,
        "accuracy": decode_value(dict[str, JSON], tops, "accuracy"),
        "trial": asdict(made.trial),
    }
