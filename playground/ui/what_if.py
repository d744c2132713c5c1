"""What other settings would bring: the panel that starts from a measured lane and asks the speed model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated

from playground.analysis.bench import BASELINE
from playground.analysis.benchmark import Sample
from playground.analysis.cost_curve import CostCurve, interpolated
from playground.analysis.lane_text import split_lane
from playground.analysis.prediction import fit
from playground.analysis.report import OVERALL, Row
from playground.analysis.speed_model import Cost, alpha_for, free
from playground.analysis.what_if import Scenario, measured_scenario
from playground.decoding.codec import JSON, Between, decode_value
from playground.errors import UserError
from playground.methods import METHODS, Shape

STARTS: dict[Shape, Scenario] = {  # where nothing was measured
    "chain": Scenario("chain", 0.7, k=4, draft_cost=0.1),
    "tree": Scenario("tree", 0.5, nodes=16, draft_cost=0.05),
    "lookahead": Scenario("lookahead", 0.3, window=7, ngram=5, guesses=7),
}
CONTROLS: dict[Shape, tuple[str, ...]] = {
    "chain": ("alpha", "k", "draft_cost", "batch"),
    "tree": ("alpha", "nodes", "draft_cost", "batch"),
    "lookahead": ("alpha", "window", "guesses", "batch"),
}
WHOLE = ("k", "nodes", "window", "guesses", "batch")
ACROSS: dict[Shape, tuple[str, tuple[int, ...]]] = {
    "chain": ("k", tuple(range(1, 17))),
    "tree": ("nodes", (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)),
    "lookahead": ("window", (1, 2, 3, 5, 7, 10, 15, 20, 25, 30)),
}
BATCHES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class _Asked:
    """What the panel sends: the lane in focus, or a kind of guessing, and what the visitor changed."""

    lane: str = ""
    kind: str = "chain"
    changed: dict[str, Annotated[float, Between(0, 1024)]] = field(default_factory=dict)


def what_if(asked: object, samples: Sequence[Sample], rows: Sequence[Row], curve: CostCurve | None) -> dict[str, JSON]:
    """Where the panel stands, and the speed-ups that are expected there, by the setting of its kind and by batch.

    `start` says where the numbers came from ("model", "row" or "nothing"), `cost` where the cost of a pass did
    ("curve", "lane" or "free"), `seen` is the measured speed-up. Raises UserError for what cannot be.
    """
    given = decode_value(_Asked, asked, "What-if")
    known = {row.lane: row for row in rows if row.category == OVERALL}
    scenario, start, cost, source = _begin(given, samples, known, curve)
    scenario = _changed(scenario, given.changed)
    name, values = ACROSS[scenario.kind]
    across: list[JSON] = [[value, replace(scenario, **{name: value}).speedup(cost)] for value in values]  # type: ignore[arg-type]
    by_batch: list[JSON] = [[batch, replace(scenario, batch=batch).speedup(cost)] for batch in BATCHES]
    row = known.get(given.lane)
    over = row.speedups.get(BASELINE) if row is not None else None
    shown: dict[str, JSON] = {name: asdict(scenario)[name] for name in CONTROLS[scenario.kind]}
    return {
        "kind": scenario.kind,
        "values": shown,
        "start": start,
        "cost": source,
        "tokens": scenario.tokens,
        "speedup": scenario.speedup(cost),
        "across": across,
        "name": name,
        "by_batch": by_batch,
        "seen": over.median if over is not None and start != "nothing" else None,
    }


def _begin(
    given: _Asked, samples: Sequence[Sample], known: dict[str, Row], curve: CostCurve | None
) -> tuple[Scenario, str, Cost, str]:
    """The scenario before any change, and the cost of a pass, each with where it comes from."""
    cost, source = (curve.relative, "curve") if curve is not None else (free, "free")
    row, base = known.get(given.lane), known.get(BASELINE)
    if row is not None and base is not None:
        if curve is not None:
            own = [sample for sample in samples if sample.lane in (given.lane, BASELINE)]
            found = measured_scenario(fit(own, BASELINE, curve, {}), given.lane, BASELINE)
            if found is not None:
                return found, "model", cost, source
        if (rough := _from_rows(row, base)) is not None:
            scenario, passes = rough
            return scenario, "row", *((cost, source) if curve is not None else (passes, "lane"))
    if given.kind not in STARTS:
        raise UserError(f"There is no kind of guessing called {given.kind!r}. Kinds: {', '.join(STARTS)}.")
    return STARTS[given.kind], "nothing", cost, source


def _from_rows(row: Row, base: Row) -> tuple[Scenario, Cost] | None:
    """A chain or a tree that brings what a report says, and the cost of a pass between the two passes that it knows.

    Passes over prompts are in a report's numbers, so this is rougher than a speed model.
    """
    method, given = split_lane(row.lane)
    kind, length = METHODS[method].shape if method in METHODS else None, row.acceptance_length or 1.0
    if kind not in ("chain", "tree") or not row.acceptance_rate or not base.shares.get("forward"):
        return None
    proposed = max(1, round((length - 1) / row.acceptance_rate))
    k = int(given["k"]) if given.get("k", "").isdigit() else proposed
    one = base.shares["forward"] * _pass_seconds(base)
    parts = {name: share * _pass_seconds(row) / one for name, share in row.shares.items()}
    share = min(1.0, max(0.0, row.tokens_per_pass - 1) / (length - 1))
    guess = Scenario(
        kind,
        0.5,
        k=k if kind == "chain" else 0,
        nodes=proposed if kind == "tree" else 0,
        overhead=parts["other"],
        plain_overhead=(1 - base.shares["forward"]) * _pass_seconds(base) / one,
    )
    alpha = alpha_for(length, lambda chance: replace(guess, alpha=chance).tokens)
    drafted = share * k if kind == "chain" else 1
    found = replace(guess, alpha=alpha, share=share, draft_cost=parts["draft"] / drafted if drafted else 0.0)
    return found, interpolated({1: 1.0, round(found.rows): max(1.0, parts["forward"])})


def _pass_seconds(row: Row) -> float:
    return row.tokens_per_pass / row.tokens_per_second


def _changed(scenario: Scenario, changed: dict[str, float]) -> Scenario:
    for name, value in changed.items():
        if name not in CONTROLS[scenario.kind]:
            raise UserError(f"{name!r} is nothing that can be changed here; {', '.join(CONTROLS[scenario.kind])} are.")
        if name in WHOLE and not value.is_integer():
            raise UserError(f"{name} is {value:g}; it is a whole number.")
        scenario = replace(scenario, **{name: int(value) if name in WHOLE else value})  # type: ignore[arg-type]
    return scenario
