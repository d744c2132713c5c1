"""The draft model: what it offers, what it is worth, and that its inner session never loses the thread."""

from collections.abc import Sequence

import pytest
import torch

from playground.decoding.acceptance import exact
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.target import TargetModel
from playground.decoding.trace import Status, Step
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.draft_model import DraftModel

VOCAB = 8
PROMPT = [3, 1, 4, 1, 5]
SAMPLINGS = [
    Sampling(seed=1),
    Sampling(repetition_penalty=1.3),
    Sampling(0.8, seed=2),
    Sampling(1.2, top_k=5, top_p=0.9, min_p=0.01, repetition_penalty=1.3, seed=3),
]
EVERY_SAMPLING = pytest.mark.parametrize(
    "sampling", SAMPLINGS, ids=["greedy", "greedy, penalty", "sampled", "sampled, filtered"]
)


def tables(seed: int = 0, apart: float = 1.0, context: int = 1 << 20) -> tuple[TableTarget, TableTarget]:
    """A target, and a draft whose logits lie `apart` standard deviations of noise from the target's."""
    target = TableTarget.random(VOCAB, 2, seed, sharpness=2.0)
    noise = torch.randn(target.table.shape, generator=torch.Generator().manual_seed(seed + 100))
    return target, TableTarget(target.table + apart * noise, context)


def session_of(target: TargetModel, drafter, sampling: Sampling, prompt: Sequence[int] = PROMPT, new=40) -> Session:
    return Session(Executor(target), drafter, prompt, sampling, max_new_tokens=new)


def run(target: TargetModel, drafter, sampling: Sampling, **rest) -> tuple[list[int], list[Step]]:
    session = session_of(target, drafter, sampling, **rest)
    steps = list(decode([session]))
    return session.output, steps


@pytest.mark.parametrize("k", [1, 3, 7])
def test_greedy_output_is_the_autoregressive_one(k):
    for seed in range(3):
        target, draft = tables(seed)
        output, steps = run(target, DraftModel(draft, Autoregressive, k, VOCAB), Sampling())
        assert output == run(target, Autoregressive(), Sampling())[0]
        before = 0
        for step in steps:
            assert len(step.nodes) == min(k, 40 - before - 1)
            before += len(step.emitted)


@EVERY_SAMPLING
@pytest.mark.parametrize("k", [1, 4])
def test_a_draft_equal_to_the_target_is_always_accepted(sampling, k):
    target, _ = tables()
    _, steps = run(target, DraftModel(target, Autoregressive, k, VOCAB), sampling, new=40)
    for step in steps[:-1]:
        assert [token.status for token in step.emitted] == [Status.ACCEPTED] * k + [Status.BONUS]


def test_a_draft_that_is_never_right_costs_nothing_but_time():
    target, _ = tables()
    output, steps = run(target, DraftModel(TableTarget(-target.table), Autoregressive, 3, VOCAB), Sampling())
    assert output == run(target, Autoregressive(), Sampling())[0]
    assert {len(step.emitted) for step in steps} == {1}
    assert steps[0].nodes[0].status is Status.REJECTED
    assert steps[0].nodes[1].status is Status.NEVER_REACHED


@EVERY_SAMPLING
def test_q_is_the_processed_distribution_of_the_draft(sampling):
    target, draft = tables(4)
    session = session_of(target, DraftModel(draft, Autoregressive, 3, VOCAB), sampling)
    for _ in range(8):
        text = list(session.ids)
        step = session.step()
        for node in step.nodes:
            logits = draft.table[tuple(text[-2:])].unsqueeze(0)
            seen = torch.zeros(1, VOCAB, dtype=torch.bool)
            seen[0, text] = True
            if node.q is not None:
                assert node.q == pytest.approx(float(sampling.processed(logits, seen).softmax(-1)[0, node.token]))
            text.append(node.token)
        assert step.nodes[0].q is not None


def test_the_guess_ends_where_the_text_must():
    target, draft = tables()
    for new in range(1, 7):
        output, steps = run(target, DraftModel(target, Autoregressive, 4, VOCAB), Sampling(), new=new)
        assert len(output) == new
        assert len(steps[0].nodes) == min(4, new - 1)
    _, steps = run(target, DraftModel(draft, Autoregressive, 4, VOCAB), Sampling(), new=1)
    assert steps[0].reason.startswith("no room for a guess")


def test_confidence_ends_the_guess_after_the_first_doubtful_token_and_keeps_it():
    target, draft = tables(5)
    lengths = set()
    for seed in range(10):
        drafter = DraftModel(draft, Autoregressive, 3, VOCAB, confidence=0.5)
        session = session_of(target, drafter, Sampling(1.0, seed=seed), new=200)
        for _ in range(10):
            text = list(session.ids)
            step = session.step()
            trust = []
            for node in step.nodes:
                trust.append(float(draft.table[tuple(text[-2:])].softmax(-1)[node.token]))
                text.append(node.token)
            assert all(q >= 0.5 for q in trust[:-1])
            assert trust[-1] < 0.5 or len(trust) == 3
            lengths.add(len(trust))
    assert lengths == {1, 2, 3}


def test_a_smaller_vocabulary_is_padded_and_a_token_beyond_it_ends_the_guessing():
    target, whole = tables(6)
    draft = TableTarget(whole.table[:6, :6, :6])
    _, steps = run(target, DraftModel(draft, Autoregressive, 3, VOCAB), Sampling(1.0, seed=1), prompt=[1, 2], new=60)
    reasons = [step.reason for step in steps]
    first = next(at for at, step in enumerate(steps) if any(token.token >= 6 for token in step.emitted))
    assert all(step.nodes for step in steps[: first + 1])
    assert len(reasons[first + 1 : -1]) > 5
    assert set(reasons[first + 1 : -1]) <= {f"the draft model does not know token {unknown}" for unknown in (6, 7)}


def test_where_the_draft_model_is_full_the_target_goes_on_alone():
    target, draft = tables(7, context=len(PROMPT) + 10)
    output, steps = run(target, DraftModel(draft, Autoregressive, 4, VOCAB), Sampling())
    assert output == run(target, Autoregressive(), Sampling())[0]
    full = [step for step in steps[:-1] if not step.nodes]
    assert full
    assert {step.reason for step in full} == {f"the draft model's context of {len(PROMPT) + 10} tokens is full"}
    assert sum(len(step.emitted) for step in steps if step.nodes) >= 10


@EVERY_SAMPLING
def test_after_each_step_the_inner_text_is_the_committed_one_with_its_guess(sampling):
    target, draft = tables(8)
    drafter = DraftModel(draft, Autoregressive, 4, VOCAB)
    session = session_of(target, drafter, sampling)
    while session.finish is None:
        text = list(session.ids)
        step = session.step()
        assert drafter.session.ids == text + [node.token for node in step.nodes] or not step.nodes


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, seed=9)], ids=["greedy", "sampled"])
def test_what_is_taken_back_or_told_from_outside_reaches_the_draft(sampling):
    """After any rewind and commit, the guess is that of a session that started with the text as it is now."""
    target, draft = tables(9)
    session = session_of(target, DraftModel(draft, Autoregressive, 4, VOCAB), sampling, new=200)
    for back, told in [(0, [1, 2, 3]), (3, []), (2, [7]), (1, [0, 0, 0, 0]), (5, [6]), (0, [2])]:
        for _ in range(3):
            session.step()
        session.rewind(back)
        session.commit(told)
        fresh = session_of(target, DraftModel(draft, Autoregressive, 4, VOCAB), sampling, prompt=session.ids, new=100)
        assert session.step().nodes == fresh.step().nodes


def test_commit_before_rewind_is_followed_too():
    target, draft = tables(9)
    session = session_of(target, DraftModel(draft, Autoregressive, 4, VOCAB), Sampling(), prompt=[2], new=200)
    session.step()
    session.commit([5, 5, 5])
    session.rewind(len(session.ids) - 1)
    assert session.ids == [2]
    fresh = session_of(target, DraftModel(draft, Autoregressive, 4, VOCAB), Sampling(), prompt=[2], new=200)
    assert session.step().nodes == fresh.step().nodes


def test_inner_steps_are_children_and_need_one_pass_a_token():
    target, draft = tables()
    _, steps = run(target, DraftModel(draft, Autoregressive, 3, VOCAB), Sampling())
    for step in steps[:-1]:
        assert [child.emitted[0].token for child in step.children] == [node.token for node in step.nodes]
        assert {node.source for node in step.nodes} == {"draft model"}
    assert sum(child.forwards for step in steps for child in step.children) == sum(len(s.nodes) for s in steps) + 1


def test_the_inner_rule_is_exact():
    target, draft = tables()
    drafter = DraftModel(draft, Autoregressive, 3, VOCAB)
    session_of(target, drafter, Sampling(1.0)).step()
    assert drafter.session.rule is exact
