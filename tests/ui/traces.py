"""Traces to draw: made of Steps by hand, drawn by hypothesis, or run by the real engine on a table model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from hypothesis import strategies as st

from playground.decoding.sampling import Sampling
from playground.decoding.trace import FATES, ROLES, Counts, Emitted, Lane, Node, Seconds, Status, Step, Trace, Visited
from playground.methods import METHODS
from tests.world import run_method, table_world

# What a model may write: markup, a closing script tag, emoji, newline, tab, right-to-left, combining mark, override.
AWKWARD = [
    "<img src=x onerror=alert(1)>", "</script>", "&amp;", "${1}{{2}}`", " 👩‍🚀", "", "\n\n", "\t", " שלום", " مرحبا",
    "e\u0301", "\u202eback", " ", "        ", "'\"\\",
]  # fmt: skip


def lane(method: str = "draft-model", title: str = "Draft model", **rest: object) -> Lane:
    fields = {"settings": {"k": 4}, "models": {"target": "table"}, "sampling": {"temperature": 0.0}, "lossless": "ids"}
    fields |= {"prompt_ids": [1, 2], "prompt_pieces": ["Once", " upon"], "prompt": "Once upon"}
    return Lane(method, title, **(fields | rest))


def chain(index: int, fates: str, own: str = "corrected", length: int = 10, text: str = " word") -> Step:
    """A step that proposed a chain: one letter per node, a(ccepted), r(ejected) or n(ever reached)."""
    letters = {"a": Status.ACCEPTED, "r": Status.REJECTED, "n": Status.NEVER_REACHED}
    nodes = [
        Node(at - 1, 10 + at, letters[fate], "draft model", p=0.25, q=0.5, u=0.7, threshold=0.5)
        for at, fate in enumerate(fates)
    ]
    emitted = [Emitted(node.token, node.status, text) for node in nodes if node.status is Status.ACCEPTED]
    if own:
        emitted.append(Emitted(99, Status(own), text))
    pieces = {node.token: f"{text}{node.token}" for node in nodes} | {99: " own"}
    seconds = Seconds(draft=0.004, forward=0.01, acceptance=0.001)
    after = length + len(emitted)
    return Step(index, nodes, emitted, length, after, 1 + len(nodes), seconds=seconds, pieces=pieces)


def race() -> Trace:
    """Two lanes: one token a step, and a draft model with every kind of outcome."""
    plain = [
        Step(at, [], [Emitted(50 + at, Status.PLAIN, f" t{at}")], 9 + at, 10 + at, 1, seconds=Seconds(forward=0.01),
             reason="autoregressive decoding guesses nothing", pieces={50 + at: f" t{at}"})
        for at in range(9)
    ]  # fmt: skip
    plain[0].forwards, plain[0].seconds.prefill = 2, 0.03
    outcomes = ["arnn", "aaaa", "rnnn", "aarn", ""]
    drafted = [chain(at, fates, "bonus" if fates == "aaaa" else "corrected") for at, fates in enumerate(outcomes)]
    drafted[-1].emitted[-1].status, drafted[-1].reason, drafted[-1].finish = (
        Status.PLAIN,
        "no room for a guess",
        "length",
    )
    lanes = [lane("autoregressive", "Autoregressive", settings={}), lane()]
    order = [(0, plain[0]), (1, drafted[0])]
    for at in range(1, 5):
        order += [(0, plain[2 * at - 1]), (1, drafted[at]), (0, plain[2 * at])]
    return Trace(lanes, machine="a test", recorded="2020-01-01", title="by hand", order=order)


def served(settled: bool = True) -> Trace:
    """Beside a lane of this machine one of a server, of which `settled` says whether the reply's end is known."""
    roles = ["plain"], ["accepted", "accepted", "bonus"], ["plain"]
    steps = [
        Step(at, [], [Emitted(60 + place, Status(role if settled else "unknown"), f" s{place}") for place, role in
             enumerate(given)], 0, 0, 0, seconds=Seconds(forward=0.02), reason="" if settled else "not told")
        for at, given in enumerate(roles)
    ]  # fmt: skip
    if settled:
        steps[1].view = {"accepted": 2, "drafted": 3}
        steps[-1].counts = Counts(1, 3, 2, 3.0, 2 / 3, [0, 0, 1, 0], 3, [2], [3])
    steps[-1].finish = "length"
    remote = lane("vllm", "vLLM at localhost:8000", settings={"server": "http://localhost:8000", "model": ""},
                  lossless="unknown", prompt_pieces=[], prompt_ids=[1, 2] if settled else [],
                  models={"target": "served" if settled else ""}, dtype="unknown", device="unknown")  # fmt: skip
    trace = race()
    order = [(0, step) for _, step in trace.order if step.reason]
    order[1:1] = [(1, step) for step in steps]
    return Trace([trace.lanes[0], remote], machine="a test", recorded="2020-01-01", order=order)


def become(trace: Trace, later: Trace) -> Iterator[tuple[int, Step] | None]:
    """The steps of `trace`, which turns into `later` while the last one is handed out: a server's reply has ended."""
    order, trace.order = list(trace.order), []
    for at, (lane, step) in enumerate(order):
        if at == len(order) - 1:
            for (_, old), (_, new) in zip([*trace.order, (lane, step)], later.order, strict=True):
                for field in fields(new):
                    setattr(old, field.name, getattr(new, field.name))
            trace.lanes[:] = later.lanes
        trace.order.append((lane, step))
        yield lane, step
        yield None


def awkward() -> Trace:
    """One lane whose tokens are what a page may choke on."""
    steps = []
    for at, text in enumerate(AWKWARD):
        step = chain(at, "arn", text=text)
        step.pieces = {10: text or "‹F0 9F›", 11: f"{text}!", 12: text * 2, 99: text}
        steps.append(step)
    prompt = "".join(AWKWARD)
    return Trace(
        [lane(prompt=prompt, prompt_pieces=AWKWARD)], title="<b>awkward</b>", order=[(0, step) for step in steps]
    )


def write(trace: Trace, path: Path) -> Path:
    """Save a trace file and return its path."""
    with open(path, "w", encoding="utf-8") as file:
        trace.write(file)
    return path


def of_method(name: str, temperature: float = 0.0) -> Trace:
    """A real run of a method on a table model."""
    session, steps = run_method(
        METHODS[name], table_world(), [1, 2, 3, 1, 2], Sampling(temperature, seed=3), detail=True
    )
    for step in steps:
        step.pieces = {node.token: f" w{node.token}" for node in step.nodes}
    return Trace([lane(name, METHODS[name].title, prompt_ids=session.ids[:5])], order=[(0, step) for step in steps])


# ---- drawn at random ----------------------------------------------------------------------------------------------

_text = st.text(max_size=6) | st.sampled_from([*AWKWARD, "\ud83d half", "\u2028"])
_p = st.none() | st.floats(0, 1)
_seconds = st.builds(Seconds, *[st.floats(0, 5)] * len(fields(Seconds)))
_tops = st.lists(st.tuples(st.integers(0, 99), st.floats(0, 1)), max_size=3)
_visited = st.builds(
    Visited, st.integers(-1, 5), _tops, st.floats(0, 1), _tops, st.floats(0, 1), _tops, st.floats(0, 1)
)
_view = st.dictionaries(
    _text, st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | _text, st.lists, max_leaves=4)
)


@st.composite
def _nodes(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(0, 6))
    return [
        Node(draw(st.integers(-1, at - 1)), draw(st.integers(0, 99)), draw(st.sampled_from(FATES)), draw(_text),
             draw(_p), draw(_p), draw(_p), draw(_p), draw(_text))
        for at in range(count)
    ]  # fmt: skip


_counts = st.none() | st.builds(
    Counts, *[st.integers(0, 99)] * 3, _p, _p, st.none() | st.lists(st.integers(0, 9), max_size=3)
)
_emitted = st.lists(st.builds(Emitted, st.integers(0, 99), st.sampled_from(ROLES), _text), max_size=4)


def _steps(children: st.SearchStrategy[list[Step]]) -> st.SearchStrategy[Step]:
    small = st.integers(0, 500)
    return st.builds(
        Step, small, _nodes(), _emitted, small, small, small, small, st.integers(1, 3), st.just(0), st.integers(1, 4),
        _seconds, _text, st.none() | st.sampled_from(["eos", "stop", "length"]), _view, children,
        st.lists(_visited, max_size=2), st.dictionaries(st.integers(0, 99), _text, max_size=4), _counts,
    )  # fmt: skip


steps = _steps(st.lists(_steps(st.just([])), max_size=2))
traces = st.builds(
    lambda order: Trace([lane(sampling={"seed": 2**64 - 1}), lane("medusa", "Medusa")], title="title", order=order),
    st.lists(st.tuples(st.integers(0, 1), steps), max_size=5),
)
