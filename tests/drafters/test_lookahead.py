"""Lookahead on tables: lossless whatever the window, and what the Step says is what happened."""

from itertools import pairwise

import pytest
import torch

from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.trace import Status, summarize
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.lookahead import Lookahead, window_mask

PROMPT = [1, 4, 2, 4, 1, 0, 3]
GREEDY = Sampling(seed=5)
SAMPLED = Sampling(0.8, top_p=0.95, seed=5)
SHAPES = [(1, 2, 1), (1, 4, 2), (2, 2, 3), (3, 3, 1), (4, 3, 4), (5, 5, 2), (7, 4, 7)]


def session(target, drafter, sampling=GREEDY, prompt=PROMPT, **rest):
    rest.setdefault("max_new_tokens", 40)
    return Session(Executor(target), drafter, prompt, sampling, **rest)


def run(target, drafter, sampling=GREEDY, **rest):
    one = session(target, drafter, sampling, **rest)
    return one.output, list(decode([one]))


def ids(target, drafter, sampling=GREEDY, **rest):
    _, steps = run(target, drafter, sampling, **rest)
    return [token.token for step in steps for token in step.emitted]


def cycle(length=5, context=1 << 20):
    """A target that repeats 0, 1, ..., length - 1."""
    return TableTarget(torch.eye(length).roll(1, dims=1) * 9, context)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED, Sampling(repetition_penalty=1.3), Sampling(1, seed=2)])
@pytest.mark.parametrize("pool_from_prompt", [False, True])
@pytest.mark.parametrize("compatible", [False, True])
def test_the_output_is_that_of_autoregressive_decoding(shape, sampling, pool_from_prompt, compatible):
    target = TableTarget.random(6, 2, seed=1, sharpness=3)
    drafter = Lookahead(*shape, pool_from_prompt, compatible)
    assert ids(target, drafter, sampling) == ids(target, Autoregressive(), sampling)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_emits_one_token_less_when_compatible(shape):
    ngram = shape[1]
    most = {}
    for compatible in (False, True):
        _, steps = run(cycle(), Lookahead(*shape, True, compatible), prompt=[0, 1, 2, 3, 4] * 3, max_new_tokens=60)
        most[compatible] = max(len(step.emitted) for step in steps)
    assert most == {False: ngram, True: ngram - 1}


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.5, seed=1)])
@pytest.mark.parametrize("pool_from_prompt", [False, True])
def test_a_repetitive_text_is_guessed_and_the_guesses_are_accepted(sampling, pool_from_prompt):
    drafter = Lookahead(5, 4, 5, pool_from_prompt)
    _, steps = run(cycle(), drafter, sampling, prompt=[0, 1, 2, 3, 4] * 3, max_new_tokens=60)
    summary = summarize(steps)
    assert summary.draft_acceptance_rate > 0.5
    assert len(steps) < 25
    assert {token.status for step in steps for token in step.emitted} >= {Status.ACCEPTED, Status.BONUS}
    first_guess = next(step.index for step in steps if step.nodes)
    # Warm-up takes N - 2 passes, one more finds the first n-grams: without the prompt's, guesses come after those.
    assert first_guess == (0 if pool_from_prompt else 3)
    assert all(step.nodes or step.reason for step in steps)


def test_the_window_fills_level_by_level_and_then_rolls():
    window, ngram = 4, 4
    target = TableTarget.random(30, 2, seed=0, sharpness=2)
    _, steps = run(target, Lookahead(window, ngram, 3), prompt=[*range(12)], max_new_tokens=30)
    widths = [[len(level) for level in step.view["before"]] for step in steps]
    assert widths[:4] == [[6], [5, 5], [4, 4, 4], [4, 4, 4]]
    assert [step.view["level"] for step in steps[:4]] == [0, 1, 2, 2]
    assert [len(step.view["diagonals"]) for step in steps[:4]] == [0, 0, 4, 4]
    text = [*range(12), *(token.token for step in steps for token in step.emitted)]
    for step, later in pairwise(steps):
        assert later.view["before"] == step.view["after"]
        # The cache holds all but the last committed token, which is the window's first cell.
        assert step.view["before"][0][0] == text[step.cache_before]
        assert step.rows == 1 + len(step.nodes) + step.side_rows
        assert step.side_rows == sum(map(len, step.view["before"])) - 1
        full = step.view["level"] == ngram - 2
        assert step.view["results"][0 if full else 1 :] == step.view["after"][-1]
        if full:
            columns = list(map(list, zip(*step.view["before"], strict=True)))
            assert [diagonal[:-1] for diagonal in step.view["diagonals"]] == columns
            assert [diagonal[-1] for diagonal in step.view["diagonals"]] == step.view["results"]
            assert step.view["after"][0][1:] == step.view["before"][1][1:]
            assert step.view["after"][1:-1] == step.view["before"][2:]


@pytest.mark.parametrize(("window", "ngram"), [(3, 4), (4, 2), (1, 3), (1, 2)])
def test_every_cell_of_the_window_is_what_the_target_says_after_its_diagonal(window, ngram):
    """The new level, cell by cell: a table of order 9 sees the whole path, so a wrong row or position shows."""
    order = 9
    target = TableTarget.random(3, order, seed=4)
    prompt = [2, 0, 1, 1, 0, 2, 2, 1, 0]
    _, steps = run(target, Lookahead(window, ngram, 2), prompt=prompt, max_new_tokens=20)
    text = [*prompt, *(token.token for step in steps for token in step.emitted)]
    for step in steps[ngram - 2 :]:
        before, committed = step.view["before"], text[: step.cache_before + 1]
        for column, (*_, result) in enumerate(step.view["diagonals"]):
            path = [*committed, *before[0][1 : column + 1], *(level[column] for level in before[1:])]
            assert result == int(target.table[tuple(path[-order:])].argmax())


def test_window_mask_of_the_paper():
    """Five columns, three levels; the first cell is the last committed token, which is left out."""
    rows = """
        1000 00000 00000   1100 00000 00000   1110 00000 00000   1111 00000 00000
        0000 10000 00000   1000 01000 00000   1100 00100 00000   1110 00010 00000   1111 00001 00000
        0000 10000 10000   1000 01000 01000   1100 00100 00100   1110 00010 00010   1111 00001 00001
    """
    flat = [int(cell) for cell in "".join(rows.split())]
    assert window_mask(3, 5).int().flatten().tolist() == flat


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("compatible", [False, True])
def test_candidates_in_the_view_are_the_pools_and_say_how_far_they_matched(sampling, compatible):
    drafter = Lookahead(4, 3, 3, True, compatible)
    target = TableTarget.random(5, 3, seed=8, sharpness=2)
    one = session(target, drafter, sampling, max_new_tokens=60)
    pool: dict[int, list[list[int]]] = {}
    matches = []
    longest = 1 if compatible else 2
    while one.finish is None:
        last, room = one.ids[-1], 60 - len(one.output) - 1
        if one.index == 0:  # what the prompt gave is reported with the first step, and can be tried in it
            known = [list(PROMPT[at : at + 3]) for at in range(len(PROMPT) - 2) if PROMPT[at] == last]
        else:
            known = pool.get(last, [])
        step = one.step()
        tried = [ngram[1 : 1 + min(longest, room)] for ngram in known] if room else []
        assert [candidate["tokens"] for candidate in step.view["candidates"]] == tried
        emitted = [token.token for token in step.emitted]
        for candidate in step.view["candidates"]:
            tokens, matched = candidate["tokens"], candidate["matched"]
            assert tokens[:matched] == emitted[:matched]
            assert tokens[matched : matched + 1] != emitted[matched : matched + 1]
            matches.append(matched)
        assert max([0, *(candidate["matched"] for candidate in step.view["candidates"])]) == step.accepted
        for kind, ngram in step.view["pool"]:
            entries = pool.setdefault(ngram[0], [])
            if kind != "added":
                entries.remove(ngram)
            if kind != "evicted":
                entries.append(ngram)
            assert len(entries) <= 4
    assert set(matches) == set(range(longest + 1))


def test_the_pool_from_the_prompt_holds_the_n_grams_of_prompt_and_output():
    drafter = Lookahead(3, 3, 100, pool_from_prompt=True)
    target = TableTarget.random(6, 1, seed=3, sharpness=4)
    _, steps = run(target, drafter, max_new_tokens=30)
    assert any(len(step.emitted) > 1 for step in steps)
    entered = {tuple(ngram) for step in steps for kind, ngram in step.view["pool"] if kind != "evicted"}
    found = {tuple(ngram) for step in steps for ngram in step.view["diagonals"]}
    text = [*PROMPT, *(token.token for step in steps for token in step.emitted)]
    written = {tuple(text[at : at + 3]) for at in range(len(text) - 2)}
    assert entered == found | written


@pytest.mark.parametrize("guesses", [1, 2, 5])
def test_no_more_candidates_than_guesses(guesses):
    target = TableTarget.random(6, 2, seed=6)
    _, steps = run(target, Lookahead(5, 3, guesses), Sampling(1.5), max_new_tokens=60)
    assert max(len(step.view["candidates"]) for step in steps) == guesses


def test_a_warming_up_step_says_why_it_guesses_nothing():
    _, steps = run(cycle(), Lookahead(4, 5, 4), max_new_tokens=10)
    assert steps[1].reason == "the pool is empty: the window has 2 of 4 levels"


@pytest.mark.parametrize("context", range(8, 30))
@pytest.mark.parametrize("compatible", [False, True])
def test_at_the_end_of_the_context_the_window_pauses_and_the_pool_goes_on(context, compatible):
    window, ngram = 5, 4
    target = TableTarget.random(6, 2, seed=1, sharpness=3, context_length=context)
    one = session(target, Lookahead(window, ngram, 4, True, compatible), max_new_tokens=None)
    planned = []
    while one.finish is None:
        plan = one.plan

        def spy(plan=plan):
            planned.append(plan())
            return planned[-1]

        one.plan = spy
        step = one.step()
        last = step.cache_before
        assert step.view["paused"] == (last + window + ngram - 3 > context - 1)
        assert (step.side_rows == 0) == step.view["paused"]
        if step.view["paused"]:
            assert step.view["diagonals"] == step.view["results"] == []
            assert step.view["after"][1:] == step.view["before"][1:]
    assert one.finish == "context"
    assert max(max(one.positions) for one in planned) < context
    assert one.output == ids(target, Autoregressive(), max_new_tokens=None)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("pool_from_prompt", [False, True])
def test_after_a_rewind_it_decodes_the_same_again(sampling, count, pool_from_prompt):
    target = TableTarget.random(6, 2, seed=1, sharpness=3)
    expected = ids(target, Autoregressive(), sampling)
    one = session(target, Lookahead(4, 3, 4, pool_from_prompt), sampling)
    while len(one.output) < 20:
        one.step()
    one.rewind(count)
    pool = {first: list(entries) for first, entries in one.drafter.pool.found.items()}
    step = one.step()
    assert step.view["before"][0][0] == expected[step.cache_before - len(PROMPT)]
    assert step.view["pool"]
    assert pool  # what had been found was not forgotten
    list(decode([one]))
    assert one.output == expected


def test_a_rewind_out_of_the_end_of_the_context_wakes_the_window():
    one = session(cycle(context=40), Lookahead(5, 4, 4), prompt=[0, 1, 2], max_new_tokens=None)
    steps = list(decode([one]))
    assert steps[-1].view["paused"]
    one.rewind(25)
    assert not one.step().view["paused"]
    list(decode([one]))
    assert one.ids == [at % 5 for at in range(40)]


@pytest.mark.parametrize("stop_at", range(1, 12))
def test_a_stop_inside_an_accepted_n_gram(stop_at):
    def stop(output, new):
        return (stop_at, "stop") if len(output) >= stop_at else None

    prompt = [0, 1, 2, 3, 4] * 3
    one = session(cycle(), Lookahead(4, 4, 4, True), prompt=prompt, stop=stop)
    steps = list(decode([one]))
    assert one.output == ([0, 1, 2, 3, 4] * 3)[:stop_at]
    assert steps[-1].cache_after == len(prompt) + stop_at - 1
    one.rewind(1)
    assert one.step().emitted[0].token == (stop_at - 1) % 5


def test_the_same_seed_gives_the_same_trace_and_another_seed_another_window():
    target = TableTarget.random(6, 2, seed=1)
    views = [run(target, Lookahead(4, 3, 4), Sampling(seed=seed))[1][0].view for seed in (3, 3, 4)]
    assert views[0] == views[1]
    assert views[0]["before"] != views[2]["before"]


def test_a_prompt_of_one_token():
    target = TableTarget.random(6, 2, seed=1)
    drafter = Lookahead(4, 3, 4, True)
    assert ids(target, drafter, prompt=[3]) == ids(target, Autoregressive(), prompt=[3])
