"""Jacobi iteration on tables: lossless, and every Step's block is the iteration it claims to be."""

import pytest
import torch

from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.trace import Status, summarize
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.jacobi import Jacobi

PROMPT = [1, 4, 2, 4, 1, 0, 3]
GREEDY = Sampling(seed=5)
SAMPLED = Sampling(0.8, top_p=0.95, seed=5)


def session(target, drafter, sampling=GREEDY, prompt=PROMPT, **rest):
    rest.setdefault("max_new_tokens", 40)
    return Session(Executor(target), drafter, prompt, sampling, **rest)


def ids(target, sampling=GREEDY, **rest):
    one = session(target, Autoregressive(), sampling, **rest)
    list(decode([one]))
    return one.output


@pytest.mark.parametrize("block", [1, 2, 5, 16])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED, Sampling(repetition_penalty=1.3), Sampling(1, seed=2)])
def test_the_output_is_that_of_autoregressive_decoding(block, sampling):
    target = TableTarget.random(6, 2, seed=1, sharpness=2)
    one = session(target, Jacobi(block), sampling)
    steps = list(decode([one]))
    assert one.output == ids(target, sampling)
    assert all(step.nodes or step.reason for step in steps)
    assert all(step.side_rows == 0 for step in steps)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED, Sampling(2.0, seed=1)])
def test_where_tokens_do_not_depend_on_each_other_the_second_pass_solves_the_block(sampling):
    """Each position's own noise stays the same from pass to pass, so this holds under sampling too."""
    target = TableTarget(torch.randn(6, generator=torch.Generator().manual_seed(0)).expand(6, 6).clone())
    steps = list(decode([session(target, Jacobi(8), sampling)]))
    filled, solved = steps[0], steps[1]
    assert {node.source for node in filled.nodes} == {"initial fill"}
    assert solved.accepted == len(solved.nodes) - len([node for node in solved.nodes if node.source == "initial fill"])
    assert solved.accepted >= 7
    assert summarize(steps).tokens_per_target_pass > 2


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_the_blocks_are_the_iteration(sampling):
    """after = the target's own tokens given before; the next before = that iterate, moved along with the text."""
    block = 4
    target = TableTarget.random(8, 2, seed=3, sharpness=2)
    one = session(target, Jacobi(block), sampling, max_new_tokens=60)
    iterate, fixed = {}, []
    while one.finish is None:
        text = list(one.ids)
        step = one.step()
        if not step.nodes:
            continue
        view = step.view
        before, after = view["before"], view["after"]
        assert view["start"] == len(text)
        assert len(before) == min(block, 60 - (len(text) - len(PROMPT)) - 1)
        for at, token in enumerate(before):
            assert token == iterate.get(len(text) + at, token)
            assert token in PROMPT or len(text) + at in iterate
        for at, token in enumerate(after):
            assert [token] == ids(target, sampling, prompt=[*text, *before[:at]], max_new_tokens=1)
            iterate[len(text) + at] = token
        assert view["fixed"] == step.accepted
        assert before[: view["fixed"]] == after[: view["fixed"]]
        assert before[view["fixed"] : view["fixed"] + 1] != after[view["fixed"] : view["fixed"] + 1] or view[
            "fixed"
        ] == len(before)
        assert [token.token for token in step.emitted] == after[: view["fixed"] + 1]
        fixed.append(view["fixed"])
    assert {0, 1, 2} <= set(fixed)
    assert max(fixed) <= block


def test_a_repetitive_text_is_guessed_and_the_guesses_are_accepted():
    """Every token of a line of equal tokens is right as soon as one pass has seen it."""
    target = TableTarget(torch.eye(5).index_select(1, torch.tensor([0, 2, 1, 3, 4])) * 9)
    steps = list(decode([session(target, Jacobi(6), prompt=[3, 3, 3, 3, 3])]))
    summary = summarize(steps)
    assert summary.draft_acceptance_rate == 1
    assert len(steps) == 6
    assert {token.status for step in steps for token in step.emitted} == {Status.ACCEPTED, Status.BONUS}


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_rewind_keeps_the_iterate_so_the_same_text_comes_at_once(sampling, count):
    target = TableTarget.random(6, 2, seed=1, sharpness=2)
    one = session(target, Jacobi(8), sampling)
    while len(one.output) < 12:
        one.step()
    one.rewind(count)
    assert one.step().accepted >= count
    list(decode([one]))
    assert one.output == ids(target, sampling)


@pytest.mark.parametrize("context", range(8, 20))
def test_the_block_ends_with_the_context(context):
    target = TableTarget.random(6, 2, seed=1, context_length=context)
    one = session(target, Jacobi(5), max_new_tokens=None)
    steps = list(decode([one]))
    assert one.finish == "context"
    assert one.output == ids(target, max_new_tokens=None)
    assert all(step.view["start"] + len(step.view["before"]) < context for step in steps if step.nodes)


@pytest.mark.parametrize("stop_at", range(1, 10))
def test_a_stop_inside_an_accepted_block(stop_at):
    def stop(output, new):
        return (stop_at, "stop") if len(output) >= stop_at else None

    target = TableTarget(torch.eye(5) * 9)
    one = session(target, Jacobi(4), prompt=[3, 3, 3], stop=stop)
    steps = list(decode([one]))
    assert one.output == [3] * stop_at
    assert steps[-1].cache_after == 2 + stop_at
    assert steps[-1].view["fixed"] == steps[-1].accepted


def test_another_seed_is_another_initial_fill():
    target = TableTarget.random(6, 2, seed=1)
    fills = {tuple(session(target, Jacobi(12), Sampling(seed=seed)).step().view["before"]) for seed in (3, 3, 4)}
    assert len(fills) == 2
