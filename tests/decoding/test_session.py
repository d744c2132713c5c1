"""The loop with a drafter that knows the answer: every way a proposal can end occurs, and nothing ever changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.decoding.drafting import Context, Proposal
from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import PREFILL_CHUNK, Session, advance, decode, race
from playground.decoding.stopping import Stop
from playground.decoding.table import TableTarget
from playground.decoding.target import TargetModel, TransformersTarget
from playground.decoding.trace import Emitted, Seconds, Status, Step, summarize
from playground.decoding.tree import TokenTree
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.base import StatelessDrafter
from playground.drafters.draft_model import DraftModel
from playground.errors import UserError
from tests.oracle import Guess, OracleDrafter
from tests.tiny import ARCHITECTURES, CONTEXT, VOCAB, tiny_target

PROMPT = [5, 9, 3, 77, 20, 11, 64]
SAMPLINGS = {
    "greedy": Sampling(),
    "greedy, penalty": Sampling(repetition_penalty=1.3),
    "sampled": Sampling(0.8, seed=3),
    "sampled, filtered": Sampling(1.2, top_k=20, top_p=0.9, min_p=0.01, repetition_penalty=1.3, seed=4),
}
EVERY_SAMPLING = pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
EVERY_MODEL = pytest.mark.parametrize("name", ["table", *ARCHITECTURES])

# Every accepted length, the path as first, middle and last branch, with side tokens, and nothing at all.
GUESSES = [
    *(Guess(4, right) for right in range(5)),
    *(Guess(3, right, siblings=2, before=before) for right in range(4) for before in range(3)),
    *(Guess(3, right, siblings=1, before=1, side=3) for right in range(4)),
    Guess(0, 0),
    Guess(0, 0, side=9),
    Guess(6, 6),
    Guess(9, 9, siblings=1, before=1),  # deeper than the sliding windows are wide
]


def target_of(name: str) -> TargetModel:
    return TableTarget.random(VOCAB, 2, seed=1, sharpness=2.0) if name == "table" else tiny_target(name)


def written(
    target: TargetModel, sampling: Sampling, prompt: Sequence[int] = PROMPT, new: int = 60, stop: Stop | None = None
) -> list[int]:
    """Prompt and the autoregressive continuation: what nothing may change."""
    session = Session(Executor(target), Autoregressive(), prompt, sampling, max_new_tokens=new, stop=stop)
    list(decode([session]))
    return session.ids


def check_cache(session: Session) -> None:
    """The cache holds everything but the last token, and reads like a fresh prefill."""
    assert session.executor.cache.lengths[session.row] == len(session.ids) - 1
    if isinstance(session.executor.model, TransformersTarget):
        model = session.executor.model.model
        with torch.inference_mode():
            expected = model(torch.tensor([session.ids]), use_cache=False).logits[0, -1]
        found = session.executor.run({session.row: session.plan()})[session.row].logits([0])[0]
        assert torch.allclose(found, expected, atol=1e-4, rtol=0)


# --- nothing changes, and everything occurs


@EVERY_MODEL
@EVERY_SAMPLING
def test_every_accepted_length_occurs_and_the_output_never_changes(name: str, sampling: Sampling) -> None:
    target = target_of(name)
    truth = written(target, sampling, new=105)
    drafter = OracleDrafter(truth, GUESSES, VOCAB)
    session = Session(Executor(target), drafter, PROMPT, sampling, max_new_tokens=105)
    steps = list(decode([session]))
    assert session.ids == truth
    assert [step.accepted for step in steps] == drafter.expected
    assert {0, 1, 2, 3, 4, 6, 9} <= {step.accepted for step in steps}
    roles = {step.emitted[-1].status for step in steps}
    assert roles == {Status.PLAIN, Status.CORRECTED, Status.BONUS}
    later = [step for step in steps if any(n.status is Status.REJECTED for n in step.nodes[:2]) and step.accepted]
    assert later, "a branch that is not the first was followed"
    for step in steps:
        assert len(step.emitted) == step.accepted + 1 or step.finish
        assert step.rows == 1 + len(step.nodes) + step.side_rows
        assert step.cache_after - step.cache_before == len(step.emitted)
    check_cache(session)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_greedy_output_does_not_depend_on_q(name: str) -> None:
    target = target_of(name)
    truth = written(target, Sampling())
    guesses = [Guess(4, right, siblings=1, before=1, q=True) for right in range(5)]
    drafter = OracleDrafter(truth, guesses, VOCAB)
    session = Session(Executor(target), drafter, PROMPT, max_new_tokens=60, detail=True)
    steps = list(decode([session]))
    assert session.ids == truth
    assert [step.accepted for step in steps] == drafter.expected
    assert all(node.q is not None for step in steps for node in step.nodes)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_drafter_learns_the_hidden_states_of_the_text_and_the_answers_to_its_side_tokens(name: str) -> None:
    """Kept rows, put together over a run with branches and cuts, are the hidden states of a plain forward."""
    target = tiny_target(name)
    truth = written(target, Sampling(), new=105)
    drafter = OracleDrafter(truth, GUESSES, VOCAB, needs=(0, 1))
    session = Session(Executor(target), drafter, PROMPT, max_new_tokens=105)
    list(decode([session]))
    with torch.inference_mode():
        plain = target.base(input_ids=torch.tensor([session.ids]), output_hidden_states=True, use_cache=False)
    for layer, expected in [(0, plain.hidden_states[0]), (1, plain.hidden_states[1]), (-1, plain.last_hidden_state)]:
        found = torch.cat([outcome.hidden(layer) for outcome in drafter.outcomes])
        assert found.shape[0] == len(session.ids) - 1
        assert torch.allclose(found, expected[0, :-1], atol=1e-4, rtol=0)
    starts = [outcome.start for outcome in drafter.outcomes]
    assert starts == [sum(len(outcome.kept) for outcome in drafter.outcomes[:at]) for at in range(len(starts))]
    assert len(drafter.side) > 3
    for text, logits in drafter.side:
        with torch.inference_mode():
            expected = target.model(torch.tensor([text]), use_cache=False).logits[0, -len(logits) :]
        assert torch.allclose(logits, expected, atol=1e-4, rtol=0)


# --- stops inside blocks


@EVERY_SAMPLING
@pytest.mark.parametrize("name", ["table", "llama", "gemma3"])
def test_a_stop_at_every_index_of_a_block_leaves_everything_in_agreement(name: str, sampling: Sampling) -> None:
    target = target_of(name)
    whole = written(target, sampling, new=30)[len(PROMPT) :]
    for length in range(1, 21):

        def stop(ids: Sequence[int], new: int, length: int = length) -> tuple[int, str] | None:
            return (length, "stop") if len(ids) >= length else None

        drafter = OracleDrafter(PROMPT + whole, [Guess(4, 4, siblings=1, before=1)], VOCAB)
        session = Session(Executor(target), drafter, PROMPT, sampling, max_new_tokens=30, stop=stop)
        steps = list(decode([session]))
        check_cut(session, steps, whole, length, "stop")


@EVERY_SAMPLING
def test_an_end_of_text_at_every_index_and_as_bonus_leaves_everything_in_agreement(sampling: Sampling) -> None:
    target = TableTarget.random(VOCAB, 2, seed=1, sharpness=2.0)
    whole = written(target, sampling, new=30)[len(PROMPT) :]
    seen = set()
    for length in range(1, 21):
        eos = whole[length - 1]
        if eos in whole[: length - 1]:
            continue
        target.eos_ids = frozenset([eos])
        drafter = OracleDrafter(PROMPT + whole, [Guess(4, 4, siblings=1, before=1)], VOCAB)
        session = Session(Executor(target), drafter, PROMPT, sampling, max_new_tokens=30)
        steps = list(decode([session]))
        check_cut(session, steps, whole, length, "eos")
        seen.add(len(steps[-1].emitted))
        target.eos_ids = frozenset()
    assert seen == {1, 2, 3, 4, 5}, "at every index of a block of four, and as its bonus"


@pytest.mark.parametrize("length", range(1, 16))
def test_the_length_cap_and_a_stop_in_the_same_step(length: int) -> None:
    """Whichever comes first has its way; at the same token the stop gives the reason."""
    target = tiny_target("llama")
    whole = written(target, Sampling(), new=30)[len(PROMPT) :]
    for cap in range(max(1, length - 2), length + 3):

        def stop(ids: Sequence[int], new: int) -> tuple[int, str] | None:
            return (length, "stop") if len(ids) - new < length <= len(ids) else None

        drafter = OracleDrafter(PROMPT + whole, [Guess(4, 4)], VOCAB)
        session = Session(Executor(target), drafter, PROMPT, max_new_tokens=cap, stop=stop)
        steps = list(decode([session]))
        check_cut(session, steps, whole, min(cap, length), "stop" if length <= cap else "length")


def check_cut(session: Session, steps: list[Step], whole: list[int], length: int, reason: str) -> None:
    """Ids, roles, fates, statistics and cache after a run that ended at `length` tokens; and it can go on."""
    assert session.output == whole[:length]
    assert session.finish == steps[-1].finish == reason
    assert all(step.finish is None for step in steps[:-1])
    assert [token.token for step in steps for token in step.emitted] == session.output
    for step in steps:
        path = [node for node in step.nodes if node.status is Status.ACCEPTED]
        roles = [token.status for token in step.emitted]
        assert [node.token for node in path] == [t.token for t in step.emitted if t.status is Status.ACCEPTED]
        assert step.accepted == len(path)
        assert roles[:-1] == [Status.ACCEPTED] * (len(roles) - 1), "only the last may be the target's own"
        assert step.cache_after == step.cache_before + len(step.emitted)
    assert isinstance(session.drafter, OracleDrafter)
    told = session.drafter.outcomes[-1]
    assert list(told.emitted) == [token.token for token in steps[-1].emitted]
    assert [steps[-1].nodes[node].token for node in told.path] == told.emitted[: steps[-1].accepted]
    assert len(told.kept) == len(told.emitted) == len(session.laws)
    cut = [node for node in steps[-1].nodes if "cut off" in node.reason]
    assert all(node.status is Status.NEVER_REACHED and reason in node.reason for node in cut)
    summary = summarize(steps)
    assert summary.output_token_ids == session.output
    assert sum(summary.per_step_emitted) == length
    assert summary.finish_reason == reason
    check_cache(session)
    # The run can be taken up again: nothing of the cut block is left behind.
    if length < len(whole) - 8:
        session.ending.stop, session.ending.eos_ids, session.finish = None, frozenset(), None
        session.ending.room = length + 6
        list(decode([session]))
        assert session.output == whole[: length + 6]


# --- nested sessions: a draft that is the target itself must be right whatever came between


def nested(target: TargetModel) -> DraftModel:
    """A draft model in a draft model, all of them the target."""
    return DraftModel(target, lambda: DraftModel(target, Autoregressive, 2, VOCAB), 3, VOCAB)


@EVERY_SAMPLING
@pytest.mark.parametrize("name", ["table", "llama", "gemma3"])
def test_sessions_in_sessions_keep_the_thread(name: str, sampling: Sampling) -> None:
    """Blocks cut by a stop, tokens taken back, tokens told from outside: a thread lost would show as a rejection."""
    target = target_of(name)
    ends = [0]

    def stop(ids: Sequence[int], new: int) -> tuple[int, str] | None:
        return (ends[-1], "stop") if len(ids) >= ends[-1] else None

    session = Session(Executor(target), nested(target), PROMPT, sampling, max_new_tokens=90, stop=stop)
    for leg, (back, told) in enumerate([(0, []), (3, []), (0, [1]), (4, [7, 8, 9]), (1, []), (0, []), (6, [1])]):
        ends.append(len(session.output) + 5 + leg)
        for step in decode([session]):
            right = step.accepted + sum("cut off" in node.reason for node in step.nodes)
            assert right == len(step.nodes) == 3
            for child in step.children:
                assert child.accepted == len(child.nodes), "inside too"
        assert session.finish == "stop"
        session.rewind(back)
        session.commit(told)
        session.finish = None
    assert any(grandchild for child in step.children for grandchild in child.children)


# --- rewinding, committing, the ends of the context


@EVERY_SAMPLING
@pytest.mark.parametrize("name", ["table", "llama", "gemma3", "gpt2"])
@settings(max_examples=6)
@given(backs=st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_taking_tokens_back_changes_nothing(name: str, sampling: Sampling, backs: list[int]) -> None:
    target = target_of(name)
    truth = written(target, sampling, new=45)
    session = Session(Executor(target), OracleDrafter(truth, GUESSES, VOCAB), PROMPT, sampling, max_new_tokens=45)
    for back in backs:
        if session.finish is None:
            session.step()
        session.rewind(min(back, len(session.output)))
    for _ in decode([session]):
        pass
    assert session.ids == truth
    check_cache(session)


@pytest.mark.parametrize("name", ["table", "llama", "gemma3"])
@settings(max_examples=15)
@given(told=st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=5), min_size=1, max_size=5))
def test_tokens_told_from_outside_are_read_like_a_prompt(name: str, told: list[list[int]]) -> None:
    """Several uncached tokens, a tree and side tokens in one pass."""
    target = target_of(name)
    session = Session(Executor(target), Autoregressive(), PROMPT)
    for ids in told:
        session.step()
        session.commit(ids)
    truth = written(target, Sampling(), session.ids, new=12)
    session.drafter = OracleDrafter(truth, [Guess(3, 2, siblings=2, before=1, side=3)], VOCAB)
    session.drafter.start(session.ids, Sampling())
    steps = [session.step() for _ in range(3)]
    assert session.ids == truth[: len(session.ids)]
    assert [step.accepted for step in steps] == [2, 2, 2]
    check_cache(session)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3", "phi"])
@pytest.mark.parametrize("left", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("asked", [None, 1000])
def test_the_last_positions_of_the_context_work(name: str, left: int, asked: int | None) -> None:
    target = tiny_target(name, context=24)
    prompt = [(3 * at + 1) % VOCAB for at in range(24 - left)]
    truth = written(target, Sampling(), prompt, new=1000)
    assert len(truth) == 24
    guess = Guess(5, 5, siblings=1, before=1, side=6)
    session = Session(Executor(target), OracleDrafter(truth, [guess], VOCAB), prompt, max_new_tokens=asked)
    steps = list(decode([session]))
    assert session.ids == truth
    assert session.finish == "context"
    assert len(steps) == (left > 0)
    if left:
        assert steps[0].accepted == min(left - 1, 5)


def test_room_that_ends_with_the_length_asked_for_says_length() -> None:
    target = tiny_target("llama", context=24)
    session = Session(Executor(target), Autoregressive(), PROMPT, max_new_tokens=24 - len(PROMPT))
    assert list(decode([session]))[-1].finish == "length"


def test_no_new_tokens_is_a_run_without_a_step() -> None:
    session = Session(Executor(tiny_target("llama")), Autoregressive(), PROMPT, max_new_tokens=0)
    assert session.finish == "length"
    assert list(decode([session])) == []


def test_an_executor_can_be_used_again() -> None:
    target = tiny_target("llama")
    executor = Executor(target)
    list(decode([Session(executor, Autoregressive(), [1, 2, 3, 4], max_new_tokens=9)]))
    session = Session(executor, Autoregressive(), PROMPT, max_new_tokens=9)
    list(decode([session]))
    assert session.ids == written(target, Sampling(), new=9)


@pytest.mark.parametrize("count", [-1, 4])
def test_taking_back_what_was_not_emitted_is_refused(count: int) -> None:
    session = Session(Executor(tiny_target("llama")), Autoregressive(), PROMPT, max_new_tokens=3)
    list(decode([session]))
    with pytest.raises(ValueError, match=f"cannot take back {count} of 3 tokens"):
        session.rewind(count)


@pytest.mark.parametrize(
    ("prompt", "saying"),
    [
        ([], "prompt is empty"),
        ([1] * (CONTEXT + 1), f"has {CONTEXT + 1} tokens, but .* reads at most {CONTEXT}"),
        ([1, VOCAB], f"holds token {VOCAB}, but .* knows {VOCAB} tokens"),
        ([1, -3, 200], "holds token -3"),
    ],
)
def test_prompts_that_cannot_be_read_are_told(prompt: list[int], saying: str) -> None:
    with pytest.raises(UserError, match=saying):
        Session(Executor(tiny_target("llama")), Autoregressive(), prompt)


def test_a_negative_length_is_told() -> None:
    with pytest.raises(UserError, match="max_new_tokens is -1"):
        Session(Executor(tiny_target("llama")), Autoregressive(), PROMPT, max_new_tokens=-1)


# --- prefill


@pytest.mark.parametrize("length", [1, 2, PREFILL_CHUNK, PREFILL_CHUNK + 1, PREFILL_CHUNK + 2, 2 * PREFILL_CHUNK + 77])
def test_long_prompts_are_read_in_chunks(length: int) -> None:
    target = tiny_target("gemma3", context=2048)
    prompt = [(7 * at + at // 5) % VOCAB for at in range(length)]
    drafter = OracleDrafter([], [Guess(0, 0)], VOCAB)
    session = Session(Executor(target), drafter, prompt, max_new_tokens=3)
    drafter.truth = written(target, Sampling(), prompt, new=3)
    steps = list(decode([session]))
    with torch.inference_mode():
        logits = target.model(torch.tensor([session.ids]), use_cache=False).logits[0, length - 1 : -1]
    assert session.output == logits.argmax(-1).tolist()
    chunks = -(-(length - 1) // PREFILL_CHUNK)
    assert [step.forwards for step in steps] == [1 + chunks, 1, 1]
    assert summarize(steps).target_forwards == 3 + chunks
    assert sum(len(outcome.kept) for outcome in drafter.outcomes[:chunks]) == length - 1


# --- several sequences in one executor

ragged = st.lists(
    st.tuples(
        st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=15),
        st.integers(0, 25),
        st.lists(st.sampled_from(GUESSES), min_size=1, max_size=4),
        st.sampled_from(list(SAMPLINGS.values())),
    ),
    min_size=2,
    max_size=4,
)


@pytest.mark.parametrize("name", ["table", "llama", "mistral", "gemma3", "gpt2"])
@settings(max_examples=8)
@given(rows=ragged)
def test_sequences_that_share_an_executor_equal_those_that_run_alone(name: str, rows) -> None:
    """Ragged prompts, other proposals, other samplings, ending at different steps: no row notices the others."""
    target = target_of(name)
    executor = Executor(target, len(rows))
    truths = [written(target, sampling, prompt, new) for prompt, new, _, sampling in rows]
    drafters = [OracleDrafter(truth, guesses, VOCAB) for truth, (_, _, guesses, _) in zip(truths, rows, strict=True)]
    sessions = [
        Session(executor, drafter, prompt, sampling, max_new_tokens=new, row=row)
        for row, (drafter, (prompt, new, _, sampling)) in enumerate(zip(drafters, rows, strict=True))
    ]
    steps = list(decode(sessions))
    for row, (session, truth) in enumerate(zip(sessions, truths, strict=True)):
        mine = [step for step in steps if step.row == row]
        assert session.ids == truth
        assert [step.index for step in mine] == list(range(len(mine)))
        assert [step.accepted for step in mine] == drafters[row].expected
        assert session.executor.cache.lengths[row] in (len(session.ids) - 1, 0)
        assert [token.token for step in mine for token in step.emitted] == session.output
    for index in range(max((step.index for step in steps), default=-1) + 1):
        together = [step for step in steps if step.index == index]
        assert {step.batch for step in together} == {len(together)}


def test_long_and_short_prompts_are_prefilled_together() -> None:
    target = tiny_target("llama", context=2048)
    prompts = [[(5 * at + row) % VOCAB for at in range(n)] for row, n in enumerate([PREFILL_CHUNK + 40, 1, 30])]
    executor = Executor(target, 3)
    sessions = [
        Session(executor, Autoregressive(), prompt, max_new_tokens=6, row=at) for at, prompt in enumerate(prompts)
    ]
    steps = list(decode(sessions))
    assert [session.ids for session in sessions] == [written(target, Sampling(), prompt, new=6) for prompt in prompts]
    assert [summarize([s for s in steps if s.row == row]).target_forwards for row in range(3)] == [8, 6, 7]


# --- proposals that are cut


class Offers(StatelessDrafter):
    """Proposes one tree, whatever the text."""

    def __init__(self, tree: TokenTree, source: str | Sequence[str] = "") -> None:
        self.tree, self.source = tree, source

    def propose(self, context: Context) -> Proposal:
        q = [torch.full((VOCAB,), 1 / VOCAB) for _ in range(len(self.tree))]
        return Proposal(self.tree, q, source=self.source)


@pytest.mark.parametrize("room", [1, 2, 3, 4])
def test_a_tree_is_cut_to_what_can_still_be_emitted(room: int) -> None:
    tree = TokenTree.from_paths([[1, 2, 3], [4, 5], [4, 6, 7]])
    sources = [f"node {node}" for node in range(len(tree))]
    session = Session(Executor(tiny_target("llama")), Offers(tree, sources), PROMPT, max_new_tokens=room)
    step = session.step()
    assert [node.source for node in step.nodes] == [
        f"node {node}" for node in range(len(tree)) if tree.shape.depths[node] < room
    ]
    assert step.rows == 1 + len(step.nodes)
    assert bool(step.nodes) != bool(step.reason), "a step without a guess says why"


# --- laws, steps in the loop, the race


@EVERY_SAMPLING
def test_a_session_tells_the_law_of_each_token_it_emitted(sampling: Sampling) -> None:
    """Asked after the step, when the text has grown, and after a cut: what a draft's q is made of."""
    target = tiny_target("llama")
    truth = written(target, sampling, new=40)
    drafter = OracleDrafter(truth, [Guess(6, 6), *GUESSES], VOCAB)

    def stop(ids: Sequence[int], new: int) -> tuple[int, str] | None:
        return (33, "stop") if len(ids) >= 33 else None

    session = Session(Executor(target), drafter, PROMPT, sampling, max_new_tokens=40, stop=stop)
    assert session.laws == []
    while session.finish is None:
        before = len(session.ids)
        step = session.step()
        assert len(session.laws) == len(step.emitted)
        for at, law in enumerate(session.laws):
            text = session.ids[: before + at]
            with torch.inference_mode():
                logits = target.model(torch.tensor([text]), use_cache=False).logits[0, -1:]
            seen = torch.zeros(1, VOCAB, dtype=torch.bool)
            seen[0, text] = True
            expected = sampling.processed(logits, seen)[0].softmax(-1)
            assert torch.allclose(law, expected, atol=1e-4)


class Counted(AbstractContextManager[None]):
    """A gate that knows whether it is held."""

    def __init__(self) -> None:
        self.held, self.times = False, 0

    def __enter__(self) -> None:
        assert not self.held
        self.held, self.times = True, self.times + 1

    def __exit__(self, *_: object) -> None:
        self.held = False


def test_the_gate_is_held_during_a_pass_and_never_while_a_step_is_looked_at() -> None:
    gate = Counted()
    session = Session(Executor(tiny_target("llama")), Autoregressive(), PROMPT, max_new_tokens=5)
    for step in decode([session], gate):
        assert not gate.held
        assert step.seconds.wait >= 0
    assert gate.times == 1 + 5, "the prompt is read in a hold of its own, so that a long one lets others pass"


def test_times_are_counted_once() -> None:
    """Shared passes are split evenly, so that the rows' own times add up to what was spent."""
    executor = Executor(tiny_target("llama"), 3)
    sessions = [Session(executor, Autoregressive(), PROMPT[: 2 + row], max_new_tokens=3, row=row) for row in range(3)]
    assert advance(sessions) == ([], None), "the prompts are read first, in a forward of their own"
    steps, failed = advance(sessions)
    assert failed is None
    assert {step.batch for step in steps} == {3}
    for step in steps:
        assert all(value >= 0 for value in (step.seconds.prefill, step.seconds.draft, step.seconds.forward))
        assert step.seconds.prefill > 0
        assert step.seconds.elapsed > step.seconds.own > 0, "a row of a batch waits for the others"
    assert all(step.seconds.prefill == 0 for step in advance(sessions)[0])


class Broken(Autoregressive):
    """A drafter whose pass cannot be judged."""

    def observe(self, outcome):
        if outcome.emitted:
            raise UserError("broken")


def test_a_row_that_fails_takes_no_steps_from_the_others() -> None:
    executor = Executor(tiny_target("llama"), 3)
    drafters = (Autoregressive(), Broken(), Autoregressive())
    sessions = [Session(executor, one, PROMPT, max_new_tokens=3, row=row) for row, one in enumerate(drafters)]
    seen = []
    with pytest.raises(UserError, match="broken"):
        seen.extend(step.row for step in decode(sessions))
    run = decode(sessions)
    first = [next(run).row for _ in range(2)]
    assert first == [0, 2], "the broken row has ended, its neighbours go on"
    assert [session.finish for session in sessions] == [None, "error", None]


def lane(*durations: float, wait: float = 0.0):
    for index, seconds in enumerate(durations):
        yield Step(index, [], [Emitted(1, Status.PLAIN)], 0, 0, 1, seconds=Seconds(wait=wait, forward=seconds))


def test_a_race_advances_the_lane_whose_own_clock_is_lowest() -> None:
    order = [at for at, _ in race([lane(3, 3, 3), lane(1, 1, 1, 1, 1), lane(2, 2)])]
    assert order == [0, 1, 2, 1, 1, 2, 0, 1, 1, 0]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=4))
def test_a_race_loses_no_step_and_never_runs_a_lane_ahead(durations: list[list[int]]) -> None:
    steps = list(race([lane(*map(float, times)) for times in durations]))
    for at, times in enumerate(durations):
        assert [step.seconds.forward for lane_, step in steps if lane_ == at] == times
    clocks = [0.0] * len(durations)
    left = [len(times) for times in durations]
    for at, step in steps:
        assert clocks[at] == min(clock for clock, more in zip(clocks, left, strict=True) if more)
        clocks[at] += step.seconds.forward
        left[at] -= 1


def test_waiting_does_not_count_in_a_race() -> None:
    order = [at for at, _ in race([lane(1, 1, 1, wait=100.0), lane(2, 2)])]
    assert order == [0, 1, 0, 0, 1]
