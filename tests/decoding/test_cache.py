"""Whatever is appended, kept, dropped, taken back or scratched: the cache must read like a fresh prefill."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from playground.decoding.cache import AHEAD, KVCache
from playground.decoding.executor import Executor, Pass, Scratch, causal
from playground.decoding.target import TransformersTarget
from playground.decoding.tree import TreeShape
from tests.decoding.test_tree import shapes
from tests.tiny import ARCHITECTURES, VOCAB, tiny_model, tiny_target

TOLERANCE = 1e-4
EVERY = pytest.mark.parametrize("name", ARCHITECTURES)
tokens = st.integers(0, VOCAB - 1)

# An operation on one row: its kind and what it needs. Sizes are small, sequences of operations long.
operations = st.one_of(
    st.tuples(st.just("append"), st.lists(tokens, min_size=1, max_size=9)),
    st.tuples(st.just("branch"), st.tuples(shapes(7).filter(len), st.integers(0, 99), tokens)),
    st.tuples(st.just("drop"), st.lists(tokens, min_size=1, max_size=9)),
    st.tuples(st.just("rewind"), st.integers(0, 9)),
    st.tuples(st.just("scratch"), st.lists(tokens, min_size=1, max_size=5)),
)


@torch.inference_mode()
def prefill(target: TransformersTarget, ids: Sequence[int]) -> Tensor:
    """Logits [n, V] by transformers' own forward of the whole text."""
    logits: Tensor = target.model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits
    return logits[0]


def chain_pass(ids: Sequence[int], start: int) -> Pass:
    return Pass(ids, range(start, start + len(ids)), causal(len(ids)))


class Rows:
    """Sequences in one executor, and the plain id lists that its cache should stand for."""

    def __init__(self, name: str, rows: int) -> None:
        self.target = tiny_target(name)
        self.executor = Executor(self.target, rows)
        self.ids: list[list[int]] = [[] for _ in range(rows)]

    def apply(self, row: int, kind: str, what: object) -> None:
        ids, cache = self.ids[row], self.executor.cache
        if kind == "rewind":
            del ids[max(0, len(ids) - what) :]  # type: ignore[operator, call-overload]
            cache.rewind(row, len(ids))
        elif kind == "scratch":
            if ids and hasattr(self.target.base, "layers"):
                Scratch(self.executor, row, self.target.early_exit(1)).read(what)  # type: ignore[arg-type]
        elif kind == "branch":
            shape, pick, first = what  # type: ignore[misc]
            self.branch(row, shape, pick, first)
        else:
            self.executor.run({row: chain_pass(what, len(ids))})  # type: ignore[arg-type]
            kept = range(len(what)) if kind == "append" else ()  # type: ignore[arg-type]
            cache.keep(row, kept)
            ids += what if kind == "append" else []  # type: ignore[operator]

    def branch(self, row: int, shape: TreeShape, pick: int, first: int) -> None:
        """Read a tree, keep the path to one of its nodes."""
        ids = self.ids[row]
        nodes = [(first + 7 * node) % VOCAB for node in range(len(shape))]
        self.executor.run({row: Pass(nodes, [len(ids) - 1 + depth for depth in shape.depths], shape.mask)})
        path = shape.path(pick % len(shape))
        self.executor.cache.keep(row, path)
        ids += [nodes[node] for node in path]

    def check(self) -> None:
        """Every row's next logits, read in one ragged pass, are those of a fresh prefill."""
        probes = {row: [(11 * row + at) % VOCAB for at in range(row + 1)] for row in range(len(self.ids))}
        found = self.executor.run({row: chain_pass(probe, len(self.ids[row])) for row, probe in probes.items()})
        for row, probe in probes.items():
            assert self.executor.cache.lengths[row] == len(self.ids[row])
            expected = prefill(self.target, [*self.ids[row], *probe])[-len(probe) :]
            assert torch.allclose(found[row].logits(slice(None)), expected, atol=TOLERANCE, rtol=0)


@EVERY
@settings(max_examples=40)
@given(script=st.lists(operations, min_size=1, max_size=8))
def test_one_row_reads_like_a_fresh_prefill(name: str, script: list[tuple[str, object]]) -> None:
    rows = Rows(name, 1)
    rows.apply(0, "append", [3, 1, 4, 1, 5, 9, 2, 6, 5])
    for kind, what in script:
        rows.apply(0, kind, what)
    rows.check()


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt2"])
@settings(max_examples=40)
@given(script=st.lists(st.tuples(st.integers(0, 2), operations), min_size=1, max_size=10))
def test_ragged_rows_read_like_fresh_prefills(name: str, script: list[tuple[int, tuple[str, object]]]) -> None:
    rows = Rows(name, 3)
    for row, (kind, what) in script:
        rows.apply(row, kind, what)
    rows.check()


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_rows_of_different_widths_share_a_pass(name: str) -> None:
    rows = Rows(name, 3)
    for widths in ((1, 9, 4), (7, 1, 2), (2, 2, 2), (1, 12, 1)):
        texts = [[(5 * at + row) % VOCAB for at in range(width)] for row, width in enumerate(widths)]
        rows.executor.run({row: chain_pass(text, len(rows.ids[row])) for row, text in enumerate(texts)})
        for row, text in enumerate(texts):
            rows.executor.cache.keep(row, range(len(text)))
            rows.ids[row] += text
    rows.check()


@EVERY
def test_sibling_rows_do_not_see_each_other(name: str) -> None:
    """Each node's logits are those of the plain text that leads to it, whatever stands in the other branches."""
    rows = Rows(name, 1)
    rows.apply(0, "append", list(range(20, 33)))
    shape = TreeShape((-1, -1, 0, 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12))  # deeper than the sliding windows are wide
    nodes = list(range(5, 20))
    positions = [len(rows.ids[0]) - 1 + depth for depth in shape.depths]
    logits = rows.executor.run({0: Pass(nodes, positions, shape.mask)})[0].logits(slice(None))
    for node in range(len(shape)):
        text = [*rows.ids[0], *(nodes[at] for at in shape.path(node))]
        assert torch.allclose(logits[node], prefill(rows.target, text)[-1], atol=TOLERANCE, rtol=0)


def test_growth_keeps_what_was_there_and_is_rare() -> None:
    rows = Rows("llama", 2)
    capacities = set()
    for at in range(280):
        rows.apply(at % 2, "append", [at % VOCAB])
        capacities.add(rows.executor.cache.states[0].keys.shape[2])
    assert len(capacities) == 3, "memory is doubled, not extended at every pass"
    rows.check()


def test_early_exit_rows_on_the_target_cache_are_the_first_layers_own() -> None:
    """Scratch rows give what a model of that many layers would say, and several reads follow on one another."""
    rows = Rows("llama", 1)
    rows.apply(0, "append", [3, 1, 4, 1, 5])
    cut = rows.target.early_exit(1)
    scratch = Scratch(rows.executor, 0, cut)
    found = [scratch.read([9, 2]), scratch.read([6])]
    alone = Executor(cut)
    whole = alone.run({0: chain_pass([3, 1, 4, 1, 5, 9, 2, 6], 0)})[0].logits([6, 7])
    assert torch.allclose(torch.stack(found), whole, atol=TOLERANCE, rtol=0)
    rows.check()


def test_a_cut_model_leaves_the_whole_one_alone() -> None:
    target = TransformersTarget(tiny_model("llama"), eos_ids=())
    before = prefill(target, [1, 2, 3])
    cut = target.early_exit(1)
    assert (cut.num_layers, target.num_layers) == (1, 2)
    assert len(target.model.model.layers) == target.model.config.num_hidden_layers == 2
    assert torch.equal(prefill(target, [1, 2, 3]), before)
    assert next(cut.base.parameters()) is next(target.base.parameters()), "weights are shared, not copied"


@pytest.mark.parametrize("length", [-1, 4, 100])
def test_rewinding_beyond_the_text_is_refused(length: int) -> None:
    cache = KVCache(1)
    cache.keep(0, [])
    cache.lengths[0] = 3
    with pytest.raises(ValueError, match="cannot rewind 3 cached tokens"):
        cache.rewind(0, length)


def test_a_run_that_may_get_long_does_not_take_all_its_room_at_once():
    executor = Executor(tiny_target("llama"), 1)
    executor.cache.reserve(10**12)
    executor.run({0: chain_pass([1, 2, 3], 0)})
    assert executor.cache.states[0].keys.shape[2] == AHEAD
