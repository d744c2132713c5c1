"""Medusa: its trees, the row its heads read, what it shows, and that nothing of it changes the output."""

import io
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from playground.decoding.executor import Executor, Pass
from playground.decoding.sampling import Sampling
from playground.decoding.session import PREFILL_CHUNK, Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.target import FINAL, TargetModel, TransformersTarget
from playground.decoding.trace import Lane, Status, Step, Trace, read_trace
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.medusa import REMEMBERED, Medusa, compile_tree
from playground.errors import UserError
from tests import published_medusa as published

ASSET = Path(__file__).parents[2] / "assets" / "medusa_trees.json"
PRESETS: dict[str, list[list[int]]] = json.loads(ASSET.read_text(encoding="utf-8"))
VOCAB, ORDER = 12, 2
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
SMALL_TREE = [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]
EVERY_PRESET = pytest.mark.parametrize("choices", PRESETS.values(), ids=PRESETS.keys())


def table(seed: int = 0, vocab: int = VOCAB) -> TableTarget:
    return TableTarget.random(vocab, ORDER, seed, sharpness=3.0)


def roll(target: TableTarget, hidden: Tensor, steps: int) -> list[Tensor]:
    """The table's most probable continuation of rows [n, order]: the tokens [n] of that many positions."""
    context, tokens = hidden.long(), []
    for _ in range(steps):
        tokens.append(target.table[tuple(context.unbind(-1))].argmax(-1))
        context = torch.cat([context, tokens[-1].unsqueeze(-1)], -1)[..., 1:]
    return tokens


def natural(target: TableTarget, length: int = 6) -> list[int]:
    """A prompt that goes on as the table would have it, so that an oracle is right from the first step on."""
    start = torch.tensor([PROMPT[:ORDER]])
    return PROMPT[:ORDER] + [int(token) for token in roll(target, start, length - ORDER)]


def oracle(target: TableTarget, ranks: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """Heads that know the greedy continuation; head i puts the right token at rank ranks[i], or nowhere if -1."""

    def heads(hidden: Tensor) -> Tensor:
        logits = torch.zeros(len(ranks), len(hidden), target.vocab_size)
        for head, (rank, tokens) in enumerate(zip(ranks, roll(target, hidden, len(ranks) + 1)[1:], strict=True)):
            for row, token in enumerate(tokens.tolist()):
                others = [other for other in range(target.vocab_size) if other != token]
                order = [*others[:rank], token, *others[rank:]] if rank >= 0 else others
                logits[head, row, order] = 20.0 - torch.arange(len(order))
        return logits

    return heads


def hazy(target: TableTarget, heads: int, blur: float = 2.0, seed: int = 5) -> Callable[[Tensor], Tensor]:
    """Heads that know the table's continuation through fixed noise: right, wrong and second best by turns."""
    vocab = target.vocab_size
    noise = torch.randn(heads, *[vocab] * ORDER, vocab, generator=torch.Generator().manual_seed(seed)) * blur

    def run(hidden: Tensor) -> Tensor:
        context, out = hidden.long(), []
        for head in range(heads):
            token = roll(target, context, 1)[0]
            context = torch.cat([context, token.unsqueeze(-1)], -1)[..., 1:]
            at = tuple(context.unbind(-1))
            out.append(target.table[at] + noise[head][at])
        return torch.stack(out)

    return run


class Watched:
    """Heads that remember what they were asked."""

    def __init__(self, heads: Callable[[Tensor], Tensor]) -> None:
        self.heads, self.read = heads, list[list[list[float]]]()

    def __call__(self, hidden: Tensor) -> Tensor:
        self.read.append(hidden.tolist())
        return self.heads(hidden)


class Recorder(Executor):
    """An executor that remembers its passes."""

    def run(self, passes, *rest, **named):
        self.passes: list[Pass] = [*getattr(self, "passes", []), *passes.values()]
        return super().run(passes, *rest, **named)


def session_of(
    target: TargetModel, drafter, sampling: Sampling | None = None, prompt=PROMPT, new=40, **rest
) -> Session:
    return Session(Executor(target), drafter, prompt, sampling, max_new_tokens=new, **rest)


def run(target: TargetModel, drafter, sampling: Sampling | None = None, **rest) -> tuple[list[int], list[Step]]:
    session = session_of(target, drafter, sampling, **rest)
    steps = list(decode([session]))
    return session.output, steps


def tiny_llama(seed: int = 0) -> TransformersTarget:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
    )
    return TransformersTarget(LlamaForCausalLM(config).eval(), "tiny")


def accepted_ranks(step: Step, ranks: Sequence[int]) -> list[int]:
    return [ranks[at] for at, node in enumerate(step.nodes) if node.status is Status.ACCEPTED]


# Trees


@EVERY_PRESET
def test_a_preset_compiles_to_what_its_paths_say(choices):
    shape, ranks = compile_tree(choices)
    wanted = sorted((tuple(path) for path in choices), key=lambda path: (len(path), path))
    paths = [tuple(ranks[at] for at in shape.path(node)) for node in range(len(shape))]
    assert paths == wanted
    assert list(shape.depths) == [len(path) for path in wanted]
    for node, path in enumerate(wanted):
        for other, above in enumerate(wanted):
            assert bool(shape.mask[node, other]) == (path[: len(above)] == above)
    leaves = {path for path in wanted if not any(p[:-1] == path for p in wanted)}
    assert {paths[node] for node, kids in shape.children.items() if node >= 0 and not kids} == leaves


@EVERY_PRESET
def test_a_preset_has_the_published_buffers(choices):
    shape, ranks = compile_tree(choices)
    tree = published.buffers(choices)
    assert [0, *shape.depths] == tree.depths.tolist()
    assert np.array_equal(tree.mask[1:, 1:], shape.mask.numpy())
    indices = [1 + rank + published.TOP * (depth - 1) for depth, rank in zip(shape.depths, ranks, strict=True)]
    assert tree.tree_indices.tolist() == [0, *indices]
    rows = {tuple(node - 1 for node in row if node > 0) for row in tree.retrieve.tolist()}
    leaves = [node for node, kids in shape.children.items() if node >= 0 and not kids]
    assert rows == {tuple(shape.path(leaf)) for leaf in leaves}
    assert len(tree.retrieve) == len(leaves)


def test_the_published_presets_are_the_published_ones():
    per_depth = {
        "mc_sim_7b_63": [10, 28, 23, 2],
        "vicuna_7b_stage1": [10, 32, 20, 1],
        "vicuna_7b_stage1_ablation": [10, 21, 25, 7],
        "vicuna_7b_stage2": [10, 23, 23, 7],
        "vicuna_13b_stage1": [10, 29, 23, 1],
        "vicuna_13b_stage2": [10, 19, 25, 9],
        "vicuna_33b_stage1": [10, 34, 19],
        "vicuna_33b_stage2": [10, 24, 24, 5],
        "zephyr_stage2": [10, 27, 23, 3],
    }
    for name, counts in per_depth.items():
        depths = compile_tree(PRESETS[name])[0].depths
        assert [depths.count(depth) for depth in range(1, max(depths) + 1)] == counts


@st.composite
def trees(draw) -> list[list[int]]:
    """A random tree of rank paths, up to four deep, its nodes in any order."""
    paths: list[tuple[int, ...]] = [()]
    for _ in range(draw(st.integers(1, 14))):
        parent = draw(st.sampled_from(paths))
        if len(parent) < 4:
            paths.append((*parent, draw(st.integers(0, VOCAB - 1))))
    nodes = sorted({path for path in paths if path}) or [(0,)]
    return [list(path) for path in draw(st.permutations(nodes))]


@settings(max_examples=40, deadline=None)
@given(trees(), st.sampled_from([0.0, 0.9]))
def test_the_output_does_not_depend_on_the_tree(choices, temperature):
    target, sampling = table(1), Sampling(temperature, seed=11)
    plain, _ = run(target, Autoregressive(), sampling, new=16)
    assert run(target, Medusa(hazy(target, 4), 4, choices), sampling, new=16)[0] == plain


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ([], "tree is empty"),
        ([[0], []], r"holds \[\]; a node is a list of ranks"),
        ([[0], [-1]], r"holds \[-1\]"),
        ([[0], ["1"]], r"holds \['1'\]"),
        ([[0], [1, 0]], r"holds \[1, 0\] but not its parent. Add \[1\]"),
    ],
)
def test_what_is_no_tree_is_refused_in_a_sentence(choices, message):
    with pytest.raises(UserError, match=message):
        compile_tree(choices)


def test_a_node_listed_twice_is_one_node():
    assert compile_tree([[0], [1], [0], (0, 1), [0, 1]]) == compile_tree([[0], [0, 1], [1]])


def test_a_tree_deeper_than_the_heads_is_cut_with_a_notice():
    target = table()
    whole, cut = Medusa(hazy(target, 4), 4, SMALL_TREE), Medusa(hazy(target, 2), 2, SMALL_TREE)
    assert whole.notices == ()
    assert cut.notices == (
        "The tree is 3 deep, but there are 2 Medusa heads: nodes below depth 2 are left out, 1 in all.",
    )
    output, steps = run(target, cut)
    assert output == run(target, Autoregressive())[0]
    assert len(steps[1].nodes) == len(SMALL_TREE) - 1


def test_a_rank_beyond_the_vocabulary_is_refused_in_a_sentence():
    target = table()
    assert run(target, Medusa(hazy(target, 1), 1, [[0], [VOCAB - 1]]), new=3)[1][0].nodes
    with pytest.raises(UserError, match=f"asks for rank {VOCAB}, but the heads score {VOCAB} tokens"):
        run(target, Medusa(hazy(target, 1), 1, [[0], [VOCAB]]))


def test_heads_that_give_no_numbers_are_refused_in_a_sentence():
    target = table()
    for broken in range(2):

        def heads(hidden, broken=broken):
            logits = torch.zeros(2, len(hidden), VOCAB)
            logits[broken, :, 3] = float("nan")
            return logits

        with pytest.raises(UserError, match="heads' logits are not numbers"):
            run(target, Medusa(heads, 2, SMALL_TREE))


# The output


@EVERY_PRESET
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(repetition_penalty=1.3),
        Sampling(0.8, seed=3),
        Sampling(1.2, top_k=6, top_p=0.9, min_p=0.01, repetition_penalty=1.2, seed=4),
    ],
    ids=["greedy", "greedy, penalty", "sampled", "sampled, filtered"],
)
def test_ids_are_the_autoregressive_ones_on_a_table(choices, sampling):
    target = table(2)
    output, steps = run(target, Medusa(hazy(target, 4, 1.0), 4, choices), sampling, new=24)
    assert output == run(target, Autoregressive(), sampling, new=24)[0]
    assert sum(step.accepted for step in steps) > 0
    assert any(node.status is Status.REJECTED for step in steps for node in step.nodes)


@EVERY_PRESET
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, seed=1)], ids=["greedy", "sampled"])
def test_ids_are_the_autoregressive_ones_on_a_transformer(choices, sampling):
    target = tiny_llama()
    plain, _ = run(target, Autoregressive(), sampling, new=24)
    output, steps = run(target, Medusa(knowing(target, PROMPT + plain, 4), 4, choices), sampling, new=24)
    assert output == plain
    assert sum(step.accepted for step in steps) >= 15


def knowing(target: TransformersTarget, text: Sequence[int], heads: int) -> Callable[[Tensor], Tensor]:
    """Heads that find the row they are given among those of the known text, and say how the text goes on.

    The row must be that of a fresh forward over the plain text, to four digits: else they say nothing.
    """
    with torch.inference_mode():
        known = target.base(input_ids=torch.tensor([text]), use_cache=False).last_hidden_state[0]

    def run(hidden: Tensor) -> Tensor:
        logits = torch.zeros(heads, len(hidden), target.vocab_size)
        for row, state in enumerate(hidden):
            gap = (known - state).abs().amax(-1)
            if gap.min() < 1e-4:
                at = int(gap.argmin())
                for head, token in enumerate(text[at + 2 : at + 2 + heads]):
                    logits[head, row, token] = 9.0
        return logits

    return run


def test_knowing_heads_are_right_in_every_step_of_a_transformer():
    """The rows that heads read are those of a fresh forward, after accepted branches too: full accepts throughout."""
    target = tiny_llama(1)
    plain, _ = run(target, Autoregressive(), new=40)
    chain = [[0], [0, 0], [0, 0, 0]]
    _, steps = run(target, Medusa(knowing(target, PROMPT + plain, 3), 3, chain), new=40)
    assert [len(step.emitted) for step in steps] == [4] * 10


# What is accepted


@pytest.mark.parametrize("path", [(0,), (2,), (0, 0), (1, 0), (0, 3, 1), (2, 1, 0, 0), (0, 0, 0, 0), (3, 3, 3, 3)])
def test_the_branch_that_is_right_is_accepted(path):
    target = table(3)
    choices = [[0], [1], [0, 0], [0, 1], [0, 0, 0], *(list(path[:depth]) for depth in range(1, len(path) + 1))]
    drafter = Medusa(oracle(target, path), len(path), choices)
    prompt = natural(target)
    output, steps = run(target, drafter, prompt=prompt)
    assert output == run(target, Autoregressive(), prompt=prompt)[0]
    for step in steps[:-1]:
        assert accepted_ranks(step, drafter.ranks) == list(path)
        assert [token.status for token in step.emitted] == [Status.ACCEPTED] * len(path) + [Status.BONUS]


@pytest.mark.parametrize("right", range(5))
def test_every_accepted_length_occurs(right):
    target = table(3)
    ranks = [0] * right + [-1] * (4 - right)
    drafter = Medusa(oracle(target, ranks), 4, [[0] * depth for depth in range(1, 5)])
    prompt = natural(target)
    output, steps = run(target, drafter, prompt=prompt)
    assert output == run(target, Autoregressive(), prompt=prompt)[0]
    last = Status.BONUS if right == 4 else Status.CORRECTED
    whole = [step for step in steps if len(step.nodes) == 4]  # near the end the tree is cut to what fits
    assert len(whole) >= 7
    for step in whole:
        assert [token.status for token in step.emitted] == [Status.ACCEPTED] * right + [last]
        fates = [node.status for node in step.nodes]
        wrong = [Status.REJECTED, *[Status.NEVER_REACHED] * (3 - right)] if right < 4 else []
        assert fates == [Status.ACCEPTED] * right + wrong


@EVERY_PRESET
def test_accepted_lengths_are_those_of_the_published_rules(choices):
    occurred = set()
    for seed in range(4):
        target = table(seed, vocab=40)
        heads = hazy(target, 4, 4.0, seed)

        def next_logits(text: Sequence[int], target=target) -> np.ndarray:
            return target.table[tuple(text[-ORDER:])].numpy()

        def head_top(text: Sequence[int], heads=heads) -> np.ndarray:
            return heads(torch.tensor([text[-ORDER:]]))[:, 0].topk(published.TOP).indices.numpy()

        ids, lengths = published.decode(next_logits, head_top, choices, PROMPT, 60)
        output, steps = run(target, Medusa(heads, 4, choices), new=60)
        assert output == ids
        # The last step of ours is cut to the length asked for, and its tree with it.
        assert [step.accepted for step in steps[:-1]] == lengths[: len(steps) - 1]
        occurred |= set(lengths)
    assert occurred >= {0, 1, 2}


def test_a_pad_is_never_accepted():
    """Two paths of different length, the right one short, and the token after it is id 0, which pads look like."""
    target = TableTarget(torch.zeros(6, 6))
    for before, after in [(1, 2), (2, 3), (3, 0), (0, 4), (4, 5), (5, 1)]:
        target.table[before, after] = 5.0

    def heads(hidden: Tensor) -> Tensor:
        token = roll(target, hidden, 2)[1]
        logits = torch.zeros(2, len(hidden), 6)
        logits[0].scatter_(1, (token.unsqueeze(1) + 2) % 6, 2.0)  # rank 0 is wrong, and the deep path with it
        logits[0].scatter_(1, token.unsqueeze(1), 1.0)  # rank 1 is right, and a leaf
        return logits

    def next_logits(text: Sequence[int]) -> np.ndarray:
        return target.table[text[-1]].numpy()

    def head_top(text: Sequence[int]) -> np.ndarray:
        top = heads(torch.tensor([[text[-1]]]))[:, 0].topk(6).indices.numpy()
        return np.pad(top, ((0, 0), (0, published.TOP - 6)))

    choices, prompt = [[0], [1], [0, 0]], [5, 1, 2]
    assert published.decode(next_logits, head_top, choices, prompt, 6, mask_pads=False)[1][0] == 2
    plain, _ = run(target, Autoregressive(), prompt=prompt, new=6)
    assert plain[:2] == [3, 0]
    output, steps = run(target, Medusa(heads, 2, choices), prompt=prompt, new=6)
    assert output == plain
    assert [(token.token, token.status) for token in steps[0].emitted] == [(3, Status.ACCEPTED), (0, Status.BONUS)]
    assert published.decode(next_logits, head_top, choices, prompt, 6)[0] == plain


# What the heads read


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, seed=2)], ids=["greedy", "sampled"])
def test_heads_run_once_a_step_on_the_row_that_produced_the_last_token(sampling):
    target = table(4)
    heads = Watched(hazy(target, 3))
    session = session_of(target, Medusa(heads, 3, SMALL_TREE), sampling)
    texts = []
    while session.finish is None:
        texts.append(list(session.ids))
        session.step()
    rooms = [len(PROMPT) + 40 - 1 - len(text) for text in texts]
    asked = [text for text, room in zip(texts, rooms, strict=True) if room > 0]
    assert heads.read == [[text[-1 - ORDER : -1]] for text in asked]
    assert len({len(after) - len(before) for before, after in pairwise(texts)}) > 1


def test_the_pass_is_the_last_token_and_the_tree():
    target = table()
    executor = Recorder(target)
    session = Session(executor, Medusa(hazy(target, 4), 4, PRESETS["zephyr_stage2"]), PROMPT, max_new_tokens=9)
    before = len(PROMPT)
    step = session.step()
    done = executor.passes[-1]
    paths = sorted(map(tuple, PRESETS["zephyr_stage2"]), key=lambda path: (len(path), path))
    assert list(done.ids) == [PROMPT[-1], *(node.token for node in step.nodes)]
    assert list(done.positions) == [before - 1, *(before - 1 + len(path) for path in paths)]
    seen = [[True] + [False] * len(paths)]
    seen += [[True, *(path[: len(other)] == other for other in paths)] for path in paths]
    assert done.visible.tolist() == seen


def test_a_prompt_of_one_token_has_no_row_to_read():
    target = table(5)
    output, steps = run(target, Medusa(hazy(target, 3), 3, SMALL_TREE), prompt=[7])
    assert output == run(target, Autoregressive(), prompt=[7])[0]
    assert steps[0].nodes == []
    assert steps[0].reason == "the heads have no hidden state to read before the first pass"
    assert len(steps[1].nodes) == len(SMALL_TREE)


@pytest.mark.parametrize("length", [2, REMEMBERED + 1, PREFILL_CHUNK + 1, PREFILL_CHUNK + 2])
def test_the_first_step_reads_the_last_row_of_the_prefill(length):
    target = table(5)
    heads = Watched(hazy(target, 3))
    prompt = [(7 * at + at // 5) % VOCAB for at in range(length)]
    _, steps = run(target, Medusa(heads, 3, SMALL_TREE), prompt=prompt, new=4)
    assert steps[0].view["row"] == length - 2
    assert heads.read[0] == [[0, *prompt][-1 - ORDER : -1]]


def test_where_one_token_fits_the_heads_do_not_run():
    target = table(5)
    heads = Watched(hazy(target, 3))
    _, steps = run(target, Medusa(heads, 3, SMALL_TREE), new=1)
    assert heads.read == []
    assert steps[0].reason.startswith("no room")
    _, steps = run(target, Medusa(heads, 3, SMALL_TREE), new=3)
    assert [len(node) for node in steps[0].view["nodes"]] == [3] * 6
    assert len(steps[0].nodes) == 6


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_after_a_rewind_the_heads_read_an_older_row(count):
    target = table(6)
    heads = Watched(hazy(target, 3))
    session = session_of(target, Medusa(heads, 3, SMALL_TREE))
    while len(session.output) < 20:
        session.step()
    session.rewind(count)
    text = list(session.ids)
    step = session.step()
    assert heads.read[-1] == [text[-1 - ORDER : -1]]
    assert step.view["row"] == len(text) - 2
    assert len(step.nodes) == len(SMALL_TREE)


def test_a_rewind_past_what_is_remembered_costs_one_guess():
    target = table(6)
    session = session_of(target, Medusa(hazy(target, 3), 3, SMALL_TREE), new=400)
    while len(session.output) < REMEMBERED + 50:
        session.step()
    session.rewind(REMEMBERED + 10)
    assert session.step().nodes == []
    assert len(session.step().nodes) == len(SMALL_TREE)


def test_the_state_of_a_token_that_was_taken_back_is_not_read():
    target = table(6)
    heads = Watched(hazy(target, 3))
    session = session_of(target, Medusa(heads, 3, SMALL_TREE))
    while len(session.output) < 12:
        session.step()
    session.rewind(4)
    others = [(token + 1) % VOCAB for token in session.ids[-2:]]
    session.rewind(2)
    session.commit(others)
    text = list(session.ids)
    step = session.step()
    # The newest row is the one before the row of the token that produced the first of the others.
    assert step.view["row"] == len(text) - 4
    assert heads.read[-1] == [text[-3 - ORDER : -3]]


@pytest.mark.parametrize("told", range(4))
def test_tokens_committed_from_outside_leave_the_later_heads(told):
    """With m uncached tokens the newest row speaks of the next position through head m, counted from 1."""
    target = table(7)
    session = session_of(target, Medusa(oracle(target, [0, 0, 0]), 3, SMALL_TREE))
    for _ in range(3):
        session.step()
    # The tokens told are the ones that would have come anyway, so that the oracle stays right.
    text = list(session.ids)
    for _ in range(told):
        text.append(int(target.table[tuple(text[-ORDER:])].argmax()))
    session.commit(text[len(session.ids) :])
    before = list(session.ids)
    step = session.step()
    assert session.ids[: len(before)] == before
    if told == 3:
        assert step.nodes == []
        assert step.reason == "the newest hidden state is too old for the 3 heads"
    else:
        assert [head["head"] for head in step.view["heads"]] == list(range(told + 1, 4))
        assert [head for head, _, _ in step.view["nodes"]] == [
            told + depth for depth in (1, 1, 1, 2, 2, 2, 3)[: len(step.nodes)]
        ]
        assert step.accepted == 3 - told
        assert {node.source for node in step.nodes if node.parent < 0} == {
            f"head {told + 1} rank {rank}" for rank in range(3)
        }
    assert len(session.step().nodes) == len(SMALL_TREE)


# What is shown


def test_the_view_shows_every_head_and_where_each_node_came_from():
    target = table(8)
    heads = hazy(target, 3)
    choices = [*SMALL_TREE, [11], [11, 7]]
    drafter = Medusa(heads, 3, choices)
    session = session_of(target, drafter)
    for _ in range(6):
        text = list(session.ids)
        step = session.step()
        probs = heads(torch.tensor([text[-1 - ORDER : -1]]))[:, 0].softmax(-1)
        order = probs.argsort(descending=True)
        assert step.view["row"] == len(text) - 2
        assert [(head["head"], head["position"]) for head in step.view["heads"]] == [
            (1, len(text)),
            (2, len(text) + 1),
            (3, len(text) + 2),
        ]
        for at, head in enumerate(step.view["heads"]):
            assert [token for token, _ in head["top"]] == order[at, :10].tolist()
            assert [p for _, p in head["top"]] == pytest.approx(probs[at, order[at, :10]].tolist(), rel=1e-4)
        for node, (head, rank, p), rank_of in zip(step.nodes, step.view["nodes"], drafter.ranks, strict=True):
            assert rank == rank_of
            assert node.token == int(order[head - 1, rank])
            assert p == pytest.approx(float(probs[head - 1, node.token]), rel=1e-4)
            assert node.source == f"head {head} rank {rank}"
            assert node.q is None
        assert [head for head, _, _ in step.view["nodes"]] == list(drafter.shape.depths)


def test_heads_show_as_many_tokens_as_the_tree_uses():
    target = table(8)
    heads = hazy(target, 3)
    _, steps = run(target, Medusa(heads, 3, SMALL_TREE), new=6)
    probs = heads(torch.tensor([PROMPT[-1 - ORDER : -1]]))[:, 0].softmax(-1)
    for head, row in zip(steps[0].view["heads"], probs, strict=True):
        best = row.topk(3)
        assert [token for token, _ in head["top"]] == best.indices.tolist()
        assert [p for _, p in head["top"]] == pytest.approx(best.values.tolist(), rel=1e-4)


def test_the_view_survives_the_trace_file():
    target = table(8)
    _, steps = run(target, Medusa(hazy(target, 3), 3, SMALL_TREE))
    trace = Trace([Lane("medusa", "Medusa", {}, {}, {}, "ids", PROMPT)], order=[(0, step) for step in steps])
    file = io.StringIO()
    trace.write(file)
    assert read_trace(file.getvalue().splitlines()) == trace
    assert json.loads(json.dumps(steps[0].view)) == steps[0].view


def test_a_run_leaves_nothing_behind():
    target = table(9)
    drafter = Medusa(hazy(target, 3), 3, SMALL_TREE)
    first = run(target, drafter, Sampling(0.8, seed=1))[1]
    run(target, drafter, prompt=[1, 2, 3])
    again = run(target, drafter, Sampling(0.8, seed=1))[1]
    assert [(step.nodes, step.view) for step in first] == [(step.nodes, step.view) for step in again]


def test_hidden_rows_are_the_final_ones():
    assert FINAL not in Medusa(hazy(table(), 1), 1, [[0]]).needs
