"""What if: speed-ups under other settings, starting from what was measured of a lane."""

from __future__ import annotations

from dataclasses import dataclass

from playground.analysis.lane_text import split_lane
from playground.analysis.prediction import SpeedModel
from playground.analysis.speed_model import Cost, alpha_for, chain_tokens, free, lookahead_tokens, tree_tokens
from playground.errors import UserError
from playground.methods import METHODS, Shape
from playground.run import get_kind


@dataclass(frozen=True)
class Scenario:
    """A method's step in numbers that can be changed. Costs are in passes of the target that read one token.

    `alpha` is the chance that a guess is accepted where those before it were. `share` of the steps propose anything;
    the others are plain. A chain drafts `k` tokens at `draft_cost` each; a tree has `nodes` nodes, at `draft_cost` a
    step; lookahead has `window`, `ngram` and `guesses`, of which the share `tried` is there to be checked on average.
    `overhead` is what a step takes beside drafting and the pass, `plain_overhead` a step of the baseline. `batch`
    sequences share a pass; drafting and overhead are paid for each of them, as this engine does.
    """

    kind: Shape
    alpha: float
    share: float = 1.0
    k: int = 0
    nodes: int = 0
    window: int = 0
    ngram: int = 2
    guesses: int = 0
    tried: float = 1.0
    draft_cost: float = 0.0
    overhead: float = 0.0
    plain_overhead: float = 0.0
    batch: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise UserError(f"alpha is {self.alpha}; it is a probability, from 0 to 1.")
        if self.batch < 1:
            raise UserError(f"The batch is {self.batch}; a pass has at least 1 sequence.")
        for name in ("k", "nodes", "window", "guesses", "draft_cost"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} is {getattr(self, name)}; it cannot be less than 0.")

    @property
    def tokens(self) -> float:
        """Expected tokens a step: the formulas of speed_model.py, for the share of steps that propose."""
        return 1 + self.share * (_expected(self, self.alpha) - 1)

    @property
    def rows(self) -> float:
        """Tokens that a pass with a proposal reads for one sequence. Lookahead: (W + G)(N - 1), Fu et al. 2024."""
        if self.kind == "lookahead":
            return (self.window + self.tried * self.guesses) * (self.ngram - 1)
        return 1 + (self.k if self.kind == "chain" else self.nodes)

    def speedup(self, cost: Cost = free) -> float:
        """Expected speed-up over autoregressive decoding of the same batch, where a pass over n tokens costs
        `cost(n)` (`CostCurve.relative`)."""
        proposing = 1.0 if self.kind == "lookahead" else self.share  # its window rides in every pass
        passes = proposing * cost(self.batch * self.rows) + (1 - proposing) * cost(self.batch)
        drafting = self.draft_cost * (self.share * self.k if self.kind == "chain" else 1)
        step = passes + self.batch * (drafting + self.overhead)
        return self.tokens * (cost(self.batch) + self.batch * self.plain_overhead) / step


def _expected(scenario: Scenario, alpha: float) -> float:
    """Tokens of a step that proposes."""
    if scenario.kind == "chain":
        return chain_tokens(alpha, scenario.k)
    if scenario.kind == "tree":
        return tree_tokens(alpha, scenario.nodes)
    return lookahead_tokens(alpha, scenario.ngram, scenario.guesses, 1)


def measured_scenario(model: SpeedModel, lane: str, baseline: str) -> Scenario | None:
    """The scenario that has the tokens and the costs that were measured of `lane`; None for a method without guesses
    of a kind that there is a formula for, and for lanes whose steps nobody knows."""
    method, given = split_lane(lane)
    means, plain = model.lanes.get(lane), model.lanes.get(baseline)
    kind = METHODS[method].shape if method in METHODS else None
    if kind is None or means is None or plain is None:
        return None
    settings = get_kind(method).check({name: value for name, value in given.items() if name != "temperature"})
    one = model.scale * model.target.seconds(1, means.context)
    width = sum(share * size for size, share in means.rows.items())
    share = means.proposing or 1.0
    numbers: dict[str, int] = {}
    tried = 1.0
    if kind == "chain":
        numbers["k"] = int(settings["k"])
    elif kind == "tree":
        numbers["nodes"] = max(means.rows) - 1
    else:
        numbers |= {name: int(settings[name]) for name in ("window", "ngram", "guesses")}
        levels = numbers["ngram"] - 1
        tried = min(1.0, max(0.0, (width / levels - numbers["window"]) / numbers["guesses"]))
    guess = Scenario(kind, 0.5, share, tried=tried, **numbers)
    drafted = share * guess.k if kind == "chain" else 1
    return Scenario(
        kind,
        alpha_for(1 + (means.tokens - 1) / share, lambda alpha: _expected(guess, alpha)),
        share,
        tried=tried,
        draft_cost=means.draft / one / drafted if drafted else 0.0,
        overhead=means.other / one,
        plain_overhead=(plain.other + plain.draft) / one,
        **numbers,
    )
