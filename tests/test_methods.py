"""What must hold for every method: a new one is tested by being registered."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace

import pytest
import torch

from playground.decoding.sampling import Sampling
from playground.decoding.trace import FATES, ROLES, Lane, Status, Step, Trace, read_trace, summarize
from playground.drafters.medusa import Medusa
from playground.errors import UserError
from playground.methods import METHODS, Method
from playground.models.medusa_trees import OwnTree
from tests.world import SMALL, TREE, baseline, run_method, table_world

EVERY = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
GUESSING = pytest.mark.parametrize(
    "method", [m for m in METHODS.values() if m.id not in ("autoregressive", "naive-batching")], ids=lambda m: m.id
)
PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]
SAMPLINGS = {
    "greedy": Sampling(seed=3),
    "greedy, penalty": Sampling(repetition_penalty=1.3, seed=3),
    "sampled": Sampling(temperature=0.8, seed=3),
    "sampled, filtered": Sampling(temperature=1.1, top_k=4, top_p=0.9, min_p=0.02, repetition_penalty=1.3, seed=3),
}


@pytest.fixture(scope="module", params=[0, 1, 2])
def models(request: pytest.FixtureRequest):
    return table_world(seed=request.param)


@EVERY
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
def test_output_is_the_autoregressive_one(method: Method, models, sampling: Sampling) -> None:
    promise = method.promise(method.check({}), sampling.greedy)
    session, _ = run_method(method, models, PROMPT, sampling)
    if promise == "ids":
        assert session.output == baseline(models, PROMPT, sampling)
    else:
        assert promise == "distribution"
        assert len(session.output) == 40
        assert all(0 <= token < models.target.vocab_size for token in session.output)


@EVERY
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
def test_steps_add_up(method: Method, models, sampling: Sampling) -> None:
    session, steps = run_method(method, models, PROMPT, sampling)
    check_steps(steps)
    assert [token.token for step in steps for token in step.emitted] == session.output
    assert steps[-1].finish == "length"
    assert session.executor.cache.lengths[0] == len(session.ids) - 1
    summary = summarize(steps)
    assert sum(summary.per_step_emitted) == len(session.output) == sum(summary.per_step_accepted) + len(steps)


def check_steps(steps: list[Step]) -> None:
    """Accounting that holds for any steps, nested ones too."""
    for step in steps:
        assert all(node.status in FATES for node in step.nodes)
        assert all(token.status in ROLES for token in step.emitted)
        fates = Counter(node.status for node in step.nodes)
        assert fates[Status.ACCEPTED] == step.accepted
        assert step.cache_after - step.cache_before <= step.rows
        assert step.rows_discarded >= 0
        assert step.nodes or step.reason, "a step without a guess must say why"
        for node in step.nodes:
            if node.status is not Status.NEVER_REACHED:
                assert node.p is not None
            if node.parent >= 0 and node.status is Status.ACCEPTED:
                assert step.nodes[node.parent].status is Status.ACCEPTED
        check_steps(step.children)


@GUESSING
@pytest.mark.parametrize("sampling", [SAMPLINGS["greedy"], SAMPLINGS["sampled"]], ids=["greedy", "sampled"])
def test_guesses_and_is_right_now_and_then(method: Method, sampling: Sampling) -> None:
    models = table_world(seed=4, sharpness=4.0)
    _, steps = run_method(method, models, PROMPT * 3, sampling, max_new_tokens=60)
    summary = summarize(steps)
    assert summary.num_draft_tokens > 0
    assert summary.num_accepted_draft_tokens > 0
    assert summary.tokens_per_target_pass > 1


@EVERY
def test_same_seed_same_trace(method: Method, models) -> None:
    first, second = (run_method(method, models, PROMPT, SAMPLINGS["sampled"])[1] for _ in range(2))
    assert [(step.nodes, step.emitted, step.view) for step in first] == [
        (step.nodes, step.emitted, step.view) for step in second
    ]


@EVERY
def test_another_seed_is_another_text_unless_greedy(method: Method, models) -> None:
    for temperature, texts in ((0.0, 1), (0.8, 4)):
        written = {
            tuple(run_method(method, models, PROMPT, Sampling(temperature, seed=at))[0].output) for at in range(4)
        }
        assert len(written) == texts


@EVERY
@pytest.mark.parametrize("sampling", [SAMPLINGS["greedy"], SAMPLINGS["sampled"]], ids=["greedy", "sampled"])
def test_a_stop_cuts_anywhere(method: Method, models, sampling: Sampling) -> None:
    whole = run_method(method, models, PROMPT, sampling)[0].output
    for length in range(1, len(whole) + 1):

        def stop(ids, new, length=length):
            return (length, "stop") if len(ids) >= length else None

        session, steps = run_method(method, models, PROMPT, sampling, stop=stop)
        assert session.output == whole[:length]
        assert steps[-1].finish == "stop"
        assert [token.token for step in steps for token in step.emitted] == session.output
        assert sum(step.accepted for step in steps) == sum(summarize(steps).per_step_accepted)
        assert session.executor.cache.lengths[0] == len(session.ids) - 1
        check_steps(steps)


@EVERY
@pytest.mark.parametrize("sampling", [SAMPLINGS["greedy"], SAMPLINGS["sampled"]], ids=["greedy", "sampled"])
def test_end_of_text_cuts_anywhere(method: Method, models, sampling: Sampling) -> None:
    whole = run_method(method, models, PROMPT, sampling)[0].output
    for eos in set(whole):
        models.target.eos_ids = frozenset([eos])
        session, steps = run_method(method, models, PROMPT, sampling)
        models.target.eos_ids = frozenset()
        assert session.output == whole[: whole.index(eos) + 1]
        assert steps[-1].finish == "eos"


@EVERY
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_a_length_cap_is_exact(method: Method, models, length: int) -> None:
    session, steps = run_method(method, models, PROMPT, SAMPLINGS["greedy"], max_new_tokens=length)
    assert len(session.output) == length
    assert steps[-1].finish == "length"


@EVERY
def test_the_last_positions_of_the_context_work(method: Method) -> None:
    models = table_world(seed=1, context=20)
    session, steps = run_method(method, models, PROMPT, SAMPLINGS["greedy"], max_new_tokens=100)
    assert len(session.ids) == 20
    assert steps[-1].finish == "context"
    assert session.output == baseline(models, PROMPT, SAMPLINGS["greedy"], max_new_tokens=12)


@EVERY
def test_a_prompt_of_one_token_works(method: Method, models) -> None:
    session, _ = run_method(method, models, [2], SAMPLINGS["greedy"])
    assert session.output == baseline(models, [2], SAMPLINGS["greedy"])


@EVERY
def test_a_session_can_be_taken_back_and_told(method: Method, models) -> None:
    """Rewinding and committing from outside leaves nothing behind: the hybrid depends on it."""
    given = method.check(SMALL.get(method.id, {}))
    session, _ = run_method(method, models, PROMPT, SAMPLINGS["greedy"], max_new_tokens=60)
    for back, told in ((3, []), (1, [4]), (4, [0, 5]), (0, [1]), (2, [3, 3, 3])):
        session.rewind(back)
        session.commit(told)
        session.finish = None
        start = list(session.ids)
        step = session.step()
        fresh, _ = run_method(METHODS["autoregressive"], models, start, SAMPLINGS["greedy"], max_new_tokens=10)
        emitted = [token.token for token in step.emitted]
        assert emitted == fresh.output[: len(emitted)], (method.id, given, back, told)


@EVERY
def test_a_trace_written_and_read_is_the_same(method: Method, models) -> None:
    _, steps = run_method(method, models, PROMPT, SAMPLINGS["sampled"], detail=True)
    given = method.check(SMALL.get(method.id, {}))
    lane = Lane(method.id, method.title, given, {"target": "table"}, {"temperature": 0.8}, "ids", PROMPT)
    trace = Trace([lane], order=[(0, step) for step in steps])
    file = io.StringIO()
    trace.write(file)
    assert read_trace(file.getvalue().splitlines()) == trace


@EVERY
def test_bad_settings_are_told_in_a_sentence(method: Method) -> None:
    with pytest.raises(UserError, match="no setting called 'nonsense'"):
        method.check({"nonsense": 1})
    for setting in method.settings:
        if setting.kind in ("int", "float"):
            for bad in (setting.minimum - 1, setting.maximum + 1, "nan", "many", float("inf")):
                with pytest.raises(UserError, match=setting.name):
                    method.check({setting.name: bad})


def test_settings_can_be_typed_as_text() -> None:
    assert METHODS["draft-model"].check({"k": "7", "confidence": "0.5"}) == {"k": 7, "confidence": 0.5, "batch": 1}
    with pytest.raises(UserError, match=r"k is '2\.5'"):
        METHODS["draft-model"].check({"k": "2.5"})


def test_half_of_a_table_is_not_the_whole() -> None:
    """The worlds of these tests really differ between target, draft and heads: else nothing would be rejected."""
    models = table_world()
    assert models.draft is not None
    assert not torch.equal(models.draft.table.argmax(-1), models.target.table.argmax(-1))


@pytest.mark.parametrize(
    ("tree", "nodes"), [("3", 3), ("6", 6), ("auto", 4), ("7", 7), ("64", 7), ("[[0],[1],[2],[3],[0,0]]", 5)]
)
def test_a_number_is_a_tree_of_the_heads_best_nodes_and_says_where_there_are_fewer(tree: str, nodes: int) -> None:
    own = OwnTree(TREE, auto=4)
    models = replace(table_world(), tree=own, draft_tree=own)
    drafter = METHODS["medusa"].build(models, METHODS["medusa"].check({"tree": tree}))
    assert isinstance(drafter, Medusa)
    assert len(drafter.shape) == nodes
    told = ["A tree of 64 nodes was asked for, but the heads' own tree has 7: these are used."] if tree == "64" else []
    assert list(drafter.notices) == told
    hybrid = METHODS["medusa-draft"].build(models, METHODS["medusa-draft"].check({"tree": tree}))
    hybrid.start(PROMPT, Sampling())
    assert list(hybrid.notices) == told


def test_heads_whose_tree_has_no_number_use_all_of_it() -> None:
    for tree, parents in (("auto", (-1, -1, -1, 0, 0, 1, 3)), ("3", (-1, -1, -1))):
        drafter = METHODS["medusa"].build(table_world(), METHODS["medusa"].check({"tree": tree}))
        assert isinstance(drafter, Medusa)
        assert drafter.shape.parents == parents
    with pytest.raises(UserError, match="ask for 1 to"):
        METHODS["medusa"].check({"tree": "0"})
