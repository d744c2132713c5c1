"""What the panel that proves a step is told, on a table model whose law is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from playground.decoding.executor import Executor
from playground.decoding.gate import Gate
from playground.decoding.session import Session
from playground.errors import UserError
from playground.lanes import LocalLane
from playground.methods import METHODS
from playground.run import RunSpec
from playground.ui.proof import DRAWS, prove
from tests.ui import traces
from tests.world import SMALL, table_world

IDS = [1, 2, 3, 1, 2]


@dataclass
class Labels:
    """Stands in for a tokenizer's pieces."""

    def piece(self, token: int) -> str:
        return f"w{token}"


class Opener:
    """Opens a run of one lane on the table model, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.closed = 0

    @contextmanager
    def __call__(self, spec: RunSpec) -> Iterator[Any]:
        self.spec = spec
        (asked,) = spec.lanes
        method, world = METHODS[asked.method], table_world()
        settings = method.check(asked.settings)
        drafter, rule = method.build(world, settings), method.rule(settings)
        session = Session(Executor(world.target), drafter, spec.prompt_ids, spec.sampling, rule=rule, max_new_tokens=9)
        header = traces.lane(method.id, lossless=method.promise(settings, spec.sampling.greedy))
        lane = LocalLane(header, [session], session, Labels(), (), Gate())
        yield SimpleNamespace(local=lambda at: lane)
        self.closed += 1


def asked(method: str = "draft-model", **rest: object) -> dict[str, object]:
    settings = METHODS[method].check(SMALL.get(method, {}))
    sampling = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": 1}
    place = {"method": method, "settings": settings, "models": {"target": "table"}, "sampling": sampling}
    return {**place, "prompt_ids": IDS, "dtype": "float32"} | rest


def told(asked: object, opener: Callable[..., Any] | None = None) -> list[dict[str, Any]]:
    return [json.loads(message) for message in prove(asked, opener or Opener())]


def test_counts_grow_to_a_thousand_and_fit() -> None:
    opener = Opener()
    first, *counted = told(asked(), opener)
    assert first == {"progress": True}
    assert [message["draws"] for message in counted] == list(range(50, DRAWS + 1, 50))
    for message in counted:
        assert sum(count for _, _, count in message["tokens"]) + message["others"][1] == message["draws"]
    last = counted[-1]
    assert sum(p for _, p, _ in last["tokens"]) + last["others"][0] == pytest.approx(1)
    assert next(piece for piece, _, _ in last["tokens"]).startswith("w")
    assert last["p_value"] > 1e-3
    assert (last["promise"], last["greedy"], last["residual"]) == ("distribution", False, True)
    assert opener.closed == 1


def test_other_seeds_give_other_counts() -> None:
    one, other = (told(asked(first_seed=seed))[-1]["tokens"] for seed in (1, 1001))
    assert one != other
    assert one == told(asked(first_seed=1))[-1]["tokens"]


def test_without_the_residual_it_does_not_fit() -> None:
    assert told(asked(residual=False))[-1]["p_value"] < 1e-3


def test_typical_acceptance_does_not_fit_and_promised_nothing() -> None:
    settings = METHODS["medusa"].check({"acceptance": "typical"})
    last = told(asked("medusa", settings=settings))[-1]
    assert last["p_value"] < 1e-3
    assert last["promise"] == "lossy"


def test_a_greedy_lane_is_looked_at_with_temperature_1_and_says_so() -> None:
    opener = Opener()
    last = told(asked(sampling={"temperature": 0.0, "seed": 2**60}), opener)[-1]
    assert opener.spec.temperature == 1.0
    assert last["greedy"]


def test_the_place_is_given_as_ids_and_a_batch_is_one_sequence() -> None:
    opener = Opener()
    told(asked("naive-batching"), opener)
    assert opener.spec.prompt_ids == tuple(IDS)
    assert opener.spec.lanes[0].settings["batch"] == 1


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("nonsense", "the place holds 'nonsense'"),
        ({"x": 1}, "does not know"),
        (asked(prompt_ids=[]), "no text before"),
        (asked(prompt_ids=["a"]), "where int belongs"),
        (asked(models={}), "this one names []"),
        (asked(models={"target": "t", "other": "u"}), "names ['other', 'target']"),
        (asked(sampling={"temperature": -1}), "temperature is -1"),
        (asked("prompt-lookup", residual=False), "no residual to leave out"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(request_: object, said: str) -> None:
    *_, last = told(request_)
    assert said in last["error"]


def test_an_error_of_the_run_is_told() -> None:
    def opener(spec: RunSpec) -> Any:
        raise UserError("The draft is on holiday.")

    assert told(asked(), opener)[-1] == {"error": "The draft is on holiday."}
