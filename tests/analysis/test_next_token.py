"""Next tokens drawn through every method have the target's law, and a wrong rule is caught by the same test."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chi2

from playground.analysis.next_token import Judged, fit, listen, next_tokens, without_residual
from playground.decoding.acceptance import Rule, Typical, exact
from playground.decoding.executor import Executor
from playground.decoding.sampling import Purpose, Sampling, draw
from playground.decoding.session import Session
from playground.decoding.trace import Status
from playground.methods import METHODS
from tests.world import SMALL, table_world

PROMPT = [1, 2, 3, 1, 2]
DRAWN = [name for name, method in METHODS.items() if method.guesses == "distribution" and name != "cascade"]


def judged(name: str, rule: Rule = exact, seed: int = 3, temperature: float = 1.0) -> Judged:
    """A step of a method on a table model."""
    method, world = METHODS[name], table_world()
    settings = method.check(SMALL.get(name, {}))
    sampling = Sampling(temperature=temperature, seed=seed)
    drafter = method.build(world, settings)
    return listen(Session(Executor(world.target), drafter, PROMPT, sampling, rule=rule, max_new_tokens=20))


def p_value(step: Judged, rule: Rule | None = None, draws: int = 1000) -> float:
    return fit(Counter(next_tokens(step, range(draws), rule)), step.p).p_value


@pytest.mark.parametrize("name", METHODS)
def test_every_method_draws_the_next_token_from_the_target_s_law(name: str) -> None:
    assert p_value(judged(name)) > 1e-3


@pytest.mark.parametrize("name", DRAWN)
def test_a_missing_residual_is_caught_with_a_thousand_draws(name: str) -> None:
    step = judged(name)
    assert step.q is not None
    assert p_value(step, without_residual) < 1e-3
    assert p_value(step, without_residual, 4000) < 1e-9


def keeps_every_guess(view, nodes, q):
    """A mutant: the guess always stays, whatever u is."""
    verdict = exact(view, nodes, q)
    if nodes:
        verdict.path, nodes[0].status = [0], Status.ACCEPTED
    return verdict


def reuses_the_draw(view, nodes, q):
    """A mutant: the number that rejected the guess draws the one in its place."""
    verdict = exact(view, nodes, q)
    if verdict.residual is not None and not verdict.path:
        verdict.final = draw(verdict.residual, view.u(-1, Purpose.ACCEPT))
    return verdict


@pytest.mark.parametrize("mutant", [keeps_every_guess, reuses_the_draw])
def test_other_wrong_rules_are_caught(mutant: Rule) -> None:
    assert p_value(judged("draft-model"), mutant) < 1e-6


def test_typical_acceptance_is_not_the_target_s_law() -> None:
    assert p_value(judged("medusa", Typical())) < 1e-6


def test_the_draws_are_those_of_the_run_itself() -> None:
    """Under its own seed the first token is the one that a run with that seed writes."""
    for name in METHODS:
        for seed in range(8):
            world = table_world()
            method = METHODS[name]
            drafter = method.build(world, method.check(SMALL.get(name, {})))
            session = Session(
                Executor(world.target), drafter, PROMPT, Sampling(temperature=1.0, seed=seed), max_new_tokens=20
            )
            step = listen(session)
            assert list(next_tokens(step, [seed])) == session.output[:1], name


def test_the_seed_alone_decides() -> None:
    step = judged("draft-model")
    assert list(next_tokens(step, range(50))) == list(next_tokens(step, range(50)))
    assert len(set(next_tokens(step, range(50)))) > 1


def test_the_p_value_is_that_of_scipy() -> None:
    p = torch.tensor([0.5, 0.3, 0.13, 0.04, 0.03])
    counts = {0: 55, 1: 25, 2: 14, 3: 4, 4: 2}
    found = fit(counts, p)  # the last two are expected too seldom and form one bin
    expected = [(55, 50), (25, 30), (14, 13), (6, 7)]
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in expected)
    assert (found.bins, found.statistic) == (4, pytest.approx(statistic))
    assert found.p_value == pytest.approx(chi2.sf(statistic, 3))


def test_a_token_that_cannot_be_fails_at_once() -> None:
    assert fit({0: 999, 1: 1}, torch.tensor([1.0, 0.0])).p_value == 0.0


def test_a_law_of_one_token_is_met() -> None:
    assert fit({0: 1000}, torch.tensor([1.0, 0.0])).p_value == 1.0
    assert fit({0: 1000}, torch.tensor([0.999, 0.001])).bins == 1


def test_a_rest_too_small_for_a_bin_joins_the_smallest() -> None:
    found = fit({0: 60, 1: 38, 2: 2}, torch.tensor([0.6, 0.38, 0.02]))
    assert (found.bins, found.statistic) == (2, pytest.approx(0.0, abs=1e-9))
