"""The cost of a pass for those who watch: measured once, stopped, drawn, and a sentence where it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from playground import jobs as jobs_module
from playground.analysis.bench import Bench
from playground.analysis.cost_curve import CostCurve, Point
from playground.errors import UserError
from playground.jobs import Jobs
from playground.models.store import ModelStore
from playground.ui import pass_cost as pass_cost_module
from playground.ui.pass_cost import KIND, PassCost

POINTS = [Point(64, tokens, seconds, seconds, 3) for tokens, seconds in ((1, 0.01), (2, 0.01), (8, 0.03))]
CURVE = CostCurve("a-model", "a machine", "float32", "cpu", 10**6, 10**9, POINTS)


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> PassCost:
    """The measurement calls `cost.during` between its rounds, and no model is loaded for it."""

    def measure(model: object, budget: float, progress: Callable[..., None], gate: object) -> CostCurve:
        for share in (0.25, 0.5):
            made.during()  # type: ignore[attr-defined]
            progress("Round", share)
        return CURVE

    model = SimpleNamespace(target=SimpleNamespace(device=torch.device("cpu")))
    monkeypatch.setattr(ModelStore, "lease", lambda *_: nullcontext(model))
    monkeypatch.setattr(pass_cost_module, "cost_curve", measure)
    monkeypatch.setattr(jobs_module, "LOOK_SECONDS", 0.01)
    made = PassCost(Bench(ModelStore()), Jobs())
    made.during = lambda: None  # type: ignore[attr-defined]
    return made


def ended(cost: PassCost) -> dict[str, Any]:
    *_, last = cost._jobs.watch(KIND, "owner", cost.view)
    return last


def test_a_measured_curve_is_drawn_told_and_kept(cost: PassCost) -> None:
    assert ended(cost)["phase"] == "idle"
    cost.start("built-in", "owner")
    last = ended(cost)
    assert last["phase"] == "done"
    assert last["figure"]["data"][0]["y"] == [10, 10, 30]
    assert last["told"][0].startswith("Knee")
    assert cost.curve("built-in") == CURVE
    assert cost.curve("another") is None


def test_who_started_it_stops_it(cost: PassCost) -> None:
    cost.during = lambda: cost.stop("owner")  # type: ignore[attr-defined]
    cost.start("built-in", "owner")
    assert ended(cost)["phase"] == "idle"
    assert cost.curve("built-in") is None


def test_what_cannot_be_measured_is_a_sentence(cost: PassCost) -> None:
    strangers = PassCost(Bench(ModelStore(), allow_local=False), Jobs())
    for name in ("", "/etc/passwd", "../x"):
        with pytest.raises(UserError):
            strangers.start(name, "owner")

    def fail() -> None:
        raise UserError("The model is too large.")

    cost.during = fail  # type: ignore[attr-defined]
    cost.start("built-in", "owner")
    last = ended(cost)
    assert (last["phase"], last["error"]) == ("failed", "The model is too large.")
