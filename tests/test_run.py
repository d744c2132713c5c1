"""A run as a user asks for it, on the built-in models."""

from __future__ import annotations

import io
from contextlib import closing

import pytest
from torch import Tensor

from playground.decoding.session import PREFILL_CHUNK
from playground.decoding.target import TransformersTarget
from playground.decoding.trace import Status, read_trace, throughput
from playground.drafters.autoregressive import Autoregressive
from playground.errors import UserError
from playground.methods import METHODS, Method
from playground.models.store import ModelStore
from playground.run import LaneSpec, Run, RunSpec, open_run

PROMPT = "Once upon a time there was a little"


@pytest.fixture(scope="module")
def store() -> ModelStore:
    return ModelStore()


def run(store: ModelStore, *methods: str, **spec: object) -> Run:
    """A run that has ended, with default settings and 24 tokens unless told otherwise."""
    lanes = tuple(LaneSpec(method) for method in methods)
    with open_run(RunSpec(PROMPT, lanes, **({"max_new_tokens": 24} | spec)), store) as opened:
        list(opened)
    return opened


def test_text_and_labels_are_those_of_the_tokenizer(store: ModelStore) -> None:
    done = run(store, "draft-model", temperature=1.0, detail=True)
    (lane,) = done.trace.lanes
    with store.lease(open_sources()["built-in-target"]) as model:
        whole = model.tokenizer.decode([*lane.prompt_ids, *done.summary(0).output_token_ids])
        assert whole == PROMPT + done.text(0)
        labels = {token: text for _, step in done.trace.order for token, text in step.pieces.items()}
        for _, step in done.trace.order:
            for node in step.nodes:
                assert labels[node.token] == model.pieces.piece(node.token)
            for visited in step.detail:
                assert all(token in labels for token, _ in (*visited.p, *visited.q, *visited.residual))


def open_sources():
    from playground.models.catalog import load_catalog

    return {name: entry.source for name, entry in load_catalog().models.items()}


def test_a_trace_says_enough_to_run_it_again(store: ModelStore) -> None:
    done = run(store, "autoregressive", "draft-model", temperature=0.9, seed=7, stop=("\n\n",))
    file = io.StringIO()
    done.trace.write(file)
    read = read_trace(file.getvalue().splitlines())
    assert read == done.trace
    again = RunSpec(
        read.lanes[0].prompt,
        tuple(LaneSpec(lane.method, lane.settings) for lane in read.lanes),
        max_new_tokens=read.max_new_tokens,
        stop=tuple(read.stop),
        **read.lanes[0].sampling,
    )
    with open_run(again, store) as opened:
        list(opened)
    for lane in range(2):
        assert opened.summary(lane).output_token_ids == done.summary(lane).output_token_ids


def test_nothing_of_a_stop_string_is_ever_shown(store: ModelStore) -> None:
    whole = run(store, "draft-model").text(0)
    for width in (1, 3, 6):
        stop = whole[8 : 8 + width]
        done = run(store, "draft-model", stop=(stop,))
        shown = ""
        for step in done.trace.steps(0):
            shown += "".join(token.text for token in step.emitted)
            assert stop not in shown
        assert shown == whole[: whole.index(stop)]
        assert done.summary(0).finish_reason == "stop"


def test_a_batch_has_companions_and_a_throughput_of_its_own(store: ModelStore) -> None:
    done = run(store, "naive-batching", companions=("The king said", "def add(a, b):"))
    solo = run(store, "autoregressive")
    assert done.text(0) == solo.text(0)
    texts = {done.text(0, row) for row in range(4)}
    assert len(texts) >= 3, "the companions are other prompts"
    steps = [step for _, step in done.trace.order]
    rates = [done.summary(0, row).tokens_per_second for row in range(4)]
    assert throughput(steps) > max(rates), "a row is slower than the batch as a whole"


def test_a_race_gives_what_its_lanes_give_alone_and_reads_the_prompt_once(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the registry, with a prompt of two chunks: ids, nodes, views and counts are the same to the bit."""
    prompt = tuple(3 + 7 * at % 1000 for at in range(PREFILL_CHUNK + 60))
    widths: dict[str, list[int]] = {}
    forward = TransformersTarget.forward

    def counted(self: TransformersTarget, ids: Tensor, *rest: object):
        widths.setdefault(self.name, []).append(ids.shape[1] * len(ids))
        return forward(self, ids, *rest)

    def traced(*methods: str) -> list[list[object]]:
        widths.clear()
        done = run(store, *methods, prompt_ids=prompt, max_new_tokens=6)
        return [
            [
                (s.nodes, s.emitted, s.view, s.forwards, s.rows, [(c.nodes, c.emitted, c.forwards) for c in s.children])
                for s in done.trace.steps(at)
            ]
            for at in range(len(methods))
        ]

    monkeypatch.setattr(TransformersTarget, "forward", counted)
    methods = list(METHODS)
    alone = {method: traced(method)[0] for method in methods}
    for some in (methods[:5], methods[5:], ["medusa", "medusa"]):
        assert traced(*some) == [alone[method] for method in some]
        batches = some.count("naive-batching")
        for chunk in (PREFILL_CHUNK, 59):
            assert widths["built-in-target"].count(chunk) == 1
            assert widths["built-in-target"].count(4 * chunk) == batches, "a batch reads for itself"


def test_other_prompts_models_and_formats_are_read_apart(store: ModelStore) -> None:
    """One lane alone keeps nothing for others; nor do lanes that have nothing in common."""

    def shared(*lanes: LaneSpec) -> list[bool]:
        with open_run(RunSpec(PROMPT, lanes, max_new_tokens=3), store) as opened:
            readings = [opened.local(at).sessions[0].executor.reading for at in range(len(lanes))]
            first = next((reading for reading in readings if reading is not None), None)
            assert all(reading in (None, first) for reading in readings)
            return [reading is not None for reading in readings]

    usual, batch = LaneSpec("autoregressive"), LaneSpec("naive-batching")
    other = LaneSpec("autoregressive", target="built-in-draft")
    assert shared(usual) == [False]
    assert shared(usual, batch, other) == [False, False, False]
    assert shared(usual, LaneSpec("draft-model"), batch, LaneSpec("medusa")) == [True, True, False, True]


class Failing(Autoregressive):
    """Breaks in its third step."""

    def propose(self, context):
        if len(context.ids) >= context.prompt + 2 and context.room > 10:
            raise UserError("the third step is too much")
        return super().propose(context)


def test_a_lane_that_fails_ends_alone(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Method(
        "failing",
        "Failing",
        "Fails.",
        METHODS["autoregressive"].settings,
        build=lambda models, settings: Failing(),
    )
    monkeypatch.setitem(METHODS, "failing", broken)
    spec = RunSpec(PROMPT, (LaneSpec("failing"), LaneSpec("draft-model")), max_new_tokens=24)
    seen = []
    with open_run(spec, store) as opened, pytest.raises(UserError, match="Failing: the third step is too much"):
        seen.extend(lane for lane, _ in opened)
    assert seen.count(0) == 2
    assert opened.summary(1).finish_reason == "length"
    assert opened.trace.lanes[0].notices == ["the third step is too much"]
    assert all(resident.leases == 0 for resident in store.resident())


def test_leases_are_given_back_when_a_run_is_left(store: ModelStore) -> None:
    spec = RunSpec(PROMPT, (LaneSpec("draft-model"),), max_new_tokens=24)
    with closing(open_run(spec, store)) as opened:
        next(iter(opened))
        assert any(resident.leases for resident in store.resident())
    assert all(resident.leases == 0 for resident in store.resident())


def test_a_toy_method_runs_by_being_registered(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Method(
        "toy",
        "Toy",
        "Guesses nothing.",
        METHODS["jacobi"].settings,
        build=lambda models, settings: Autoregressive(),
    )
    monkeypatch.setitem(METHODS, "toy", toy)
    done = run(store, "toy")
    assert {token.status for step in done.trace.steps(0) for token in step.emitted} == {Status.PLAIN}


class NoStore(ModelStore):
    def lease(self, *args: object, **kwargs: object):
        raise AssertionError("a model was asked for")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (RunSpec(PROMPT, ()), "1 to 8 lanes"),
        (RunSpec(PROMPT, (LaneSpec("autoregressive"),), max_new_tokens=0), "0 new tokens were asked for"),
        (RunSpec(PROMPT, (LaneSpec("autoregressive"),), temperature=float("nan")), "temperature is nan"),
        (RunSpec(PROMPT, (LaneSpec("autoregressive"),), top_p=0.0), "top_p is 0"),
        (RunSpec(PROMPT, (LaneSpec("draft-model", {"k": 0}),)), "k is 0"),
        (RunSpec(PROMPT, (LaneSpec("draft-model", {"k": 1000}),)), "k is 1000"),
        (RunSpec(PROMPT, (LaneSpec("no-such-method"),)), "no method called 'no-such-method'"),
        (RunSpec(PROMPT, (LaneSpec("draft-model", target="smollm2-135m"),)), "needs a draft model"),
        (RunSpec(PROMPT, (LaneSpec("medusa-draft", {"acceptance": "typical"}),)), "refuses acceptance"),
        (RunSpec(PROMPT, (LaneSpec("medusa", {"tree": "[[0,1]]"}),)), "not its parent"),
    ],
)
def test_what_is_wrong_is_told_before_any_work(spec: RunSpec, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence.replace("[", r"\[")):
        open_run(spec, NoStore())


@pytest.mark.parametrize(("words", "sentence"), [(1200, "reads at most 1024"), (0, "empty")], ids=["too long", "empty"])
def test_a_prompt_that_cannot_be_read_is_told(store: ModelStore, words: int, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        open_run(RunSpec("word " * words, (LaneSpec("autoregressive"),)), store)
    assert all(resident.leases == 0 for resident in store.resident())


def test_a_prompt_that_fills_the_context_is_told(store: ModelStore) -> None:
    with store.lease(open_sources()["built-in-target"]) as model:
        word = next(token for token in range(300, 4096) if model.tokenizer.decode([token]).isalpha())
        text = model.tokenizer.decode([word])
        ids = model.tokenizer.encode(text * 1024)
        if len(ids) != 1024:  # the word merges with itself: take it apart
            text = "\n"
            ids = model.tokenizer.encode(text * 1024)
    spec = RunSpec(text * 1024, (LaneSpec("autoregressive"),))
    with pytest.raises(UserError, match="fills all 1024 tokens" if len(ids) == 1024 else "at most"):
        open_run(spec, store)


def test_prompt_ids_are_read_as_they_are(store: ModelStore) -> None:
    whole = run(store, "draft-model").summary(0).output_token_ids
    ids = run(store, "autoregressive").trace.lanes[0].prompt_ids
    rest = run(store, "draft-model", prompt_ids=(*ids, *whole[:10]), max_new_tokens=14)
    assert rest.trace.lanes[0].prompt_ids == [*ids, *whole[:10]]
    assert rest.summary(0).output_token_ids == whole[10:]


@pytest.mark.parametrize("ids", [(-1,), (10**6,)])
def test_prompt_ids_that_no_token_has_are_a_sentence(store: ModelStore, ids: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"The prompt holds token"):
        run(store, "autoregressive", prompt_ids=ids)
