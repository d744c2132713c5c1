"""The hybrid: a small model with Medusa heads drafts for a larger one. Two engines, one inside the other."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from playground.decoding.acceptance import Typical, exact
from playground.decoding.executor import Executor, Pass, causal
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode
from playground.decoding.table import TableTarget
from playground.decoding.target import TargetModel, TransformersTarget
from playground.decoding.trace import Status, Step
from playground.drafters import draft_model
from playground.drafters.autoregressive import Autoregressive
from playground.drafters.draft_model import DraftModel
from playground.drafters.medusa import Medusa

VOCAB, ORDER = 10, 2
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
TREE = [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]
SAMPLINGS = [
    Sampling(),
    Sampling(repetition_penalty=1.3),
    Sampling(0.8, seed=2),
    Sampling(1.2, top_k=6, top_p=0.9, min_p=0.01, repetition_penalty=1.3, seed=3),
]
EVERY_SAMPLING = pytest.mark.parametrize(
    "sampling", SAMPLINGS, ids=["greedy", "greedy, penalty", "sampled", "sampled, filtered"]
)


def heads_of(target: TableTarget, heads: int, blur: float) -> Callable[[Tensor], Tensor]:
    """Heads that roll a table forward along its most probable path, and mistake it by fixed noise."""
    vocab, order = target.vocab_size, target.order
    noise = torch.randn(heads, *[vocab] * (order + 1), generator=torch.Generator().manual_seed(77)) * blur

    def run(hidden: Tensor) -> Tensor:
        context, out = hidden.long(), []
        for head in range(heads):
            token = target.table[tuple(context.unbind(-1))].argmax(-1, keepdim=True)
            context = torch.cat([context, token], -1)[..., 1:]
            at = tuple(context.unbind(-1))
            out.append(target.table[at] + noise[head][at])
        return torch.stack(out)

    return run


def tables(
    seed: int = 0, apart: float = 0.7, vocab: int = VOCAB, order: int = ORDER
) -> tuple[TableTarget, TableTarget]:
    target = TableTarget.random(vocab, order, seed, sharpness=2.5)
    noise = torch.randn(target.table.shape, generator=torch.Generator().manual_seed(seed + 100))
    return target, TableTarget(target.table + apart * noise)


def hybrid(draft: TableTarget, k: int = 4, blur: float = 1.0, confidence: float = 0.0) -> DraftModel:
    return DraftModel(draft, lambda: Medusa(heads_of(draft, 3, blur), 3, TREE), k, VOCAB, confidence)


def session_of(target: TargetModel, drafter, sampling: Sampling, prompt: Sequence[int] = PROMPT, new=40) -> Session:
    return Session(Executor(target), drafter, prompt, sampling, max_new_tokens=new)


def run(target: TargetModel, drafter, sampling: Sampling, **rest) -> tuple[list[int], list[Step]]:
    session = session_of(target, drafter, sampling, **rest)
    steps = list(decode([session]))
    return session.output, steps


@EVERY_SAMPLING
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_its_guesses_are_those_of_the_plain_draft_model(sampling, k):
    """Medusa inside changes how many inner passes a guess takes, and nothing else: tokens, q, fates, output."""
    for seed in range(3):
        target, draft = tables(seed)
        output, steps = run(target, hybrid(draft, k), sampling)
        plain_output, plain = run(target, DraftModel(draft, Autoregressive, k, VOCAB), sampling)
        assert output == plain_output
        assert [step.nodes for step in steps] == [step.nodes for step in plain]
        if sampling.greedy:
            assert output == run(target, Autoregressive(), sampling)[0]


def test_confidence_ends_its_guesses_where_it_ends_those_of_the_plain_draft_model():
    target, draft = tables(1)
    for seed in range(5):
        sampling = Sampling(1.0, seed=seed)
        _, steps = run(target, hybrid(draft, 5, confidence=0.6), sampling)
        _, plain = run(target, DraftModel(draft, Autoregressive, 5, VOCAB, confidence=0.6), sampling)
        assert [step.nodes for step in steps] == [step.nodes for step in plain]


@EVERY_SAMPLING
def test_it_offers_exactly_k_tokens_and_takes_back_the_surplus(sampling):
    target, draft = tables(2)
    drafter = hybrid(draft, 4)
    session = session_of(target, drafter, sampling, new=60)
    surplus = Counter()
    while session.finish is None:
        text = list(session.ids)
        step = session.step()
        room = len(PROMPT) + 60 - 1 - len(text)
        assert len(step.nodes) == min(4, room)
        drafted = [token.token for child in step.children for token in child.emitted]
        guess = [node.token for node in step.nodes]
        assert drafted[: len(guess)] == guess
        assert not guess or drafter.session.ids == text + guess
        surplus[len(drafted) - len(guess)] += 1
    assert surplus[0]
    assert sum(surplus.values()) > surplus[0]


def test_inner_steps_show_the_inner_trees():
    target, draft = tables(3)
    _, steps = run(target, hybrid(draft, 4, blur=0.0), Sampling(), new=60)
    inner = [child for step in steps for child in step.children]
    assert {len(child.nodes) for child in inner} >= {len(TREE)}
    assert all(child.nodes and child.view["heads"] for child in inner)
    assert sum(child.accepted for child in inner) > 0
    assert len(inner) < sum(len(step.nodes) for step in steps)


def test_heads_that_know_the_draft_make_its_guess_in_fewer_passes():
    """The first inner step of a round has one head less: its newest row is older by the token the target gave."""
    target, _ = tables(4)
    _, steps = run(target, hybrid(target, 7, blur=0.0), Sampling(), new=60)
    for step in steps[1:-1]:
        assert [token.status for token in step.emitted] == [Status.ACCEPTED] * 7 + [Status.BONUS]
        assert [child.view["heads"][0]["head"] for child in step.children] == [2, 1]
        assert [len(child.emitted) for child in step.children] == [3, 4]


def test_typical_acceptance_cannot_get_inside():
    _, draft = tables()
    drafter = hybrid(draft)
    Session(Executor(draft), drafter, PROMPT, Sampling(1.0), rule=Typical()).step()
    assert drafter.session.rule is exact


def test_a_tree_cut_inside_is_noticed_outside():
    target, draft = tables()
    drafter = DraftModel(draft, lambda: Medusa(heads_of(draft, 2, 1.0), 2, TREE), 4, VOCAB)
    session_of(target, drafter, Sampling())
    assert len(drafter.notices) == 1
    assert "but there are 2 Medusa heads" in drafter.notices[0]


# The inner cache


def tiny(seed: int, layers: int) -> TransformersTarget:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
    )
    return TransformersTarget(LlamaForCausalLM(config).eval(), f"tiny {layers}")


def fresh_logits(model: TransformersTarget, text: Sequence[int]) -> Tensor:
    """The model's own logits [V] after a text, from a plain forward without any cache of ours."""
    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([list(text)]), use_cache=False).logits[0, -1]


def logits_through_the_cache(session: Session, text: Sequence[int]) -> Tensor:
    """Logits [V] after a text that the session's cache holds a part of. Leaves the session as it was."""
    cached = min(session.executor.cache.lengths[0], len(text) - 1)
    rest = text[cached:]
    one = Pass(rest, range(cached, len(text)), causal(len(rest)))
    rows = session.executor.run({0: one}, past={0: cached})[0]
    return rows.logits([len(rest) - 1])[0]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, seed=5)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("same", [True, False], ids=["agreeing", "disagreeing"])
def test_the_inner_cache_is_that_of_a_fresh_prefill_after_every_verdict(same, sampling):
    draft = tiny(1, 1)
    target = draft if same else tiny(2, 2)
    weights = torch.randn(3, 48, 32, generator=torch.Generator().manual_seed(3))

    def heads(hidden: Tensor) -> Tensor:
        own = draft.logits(hidden)
        return torch.stack([own.roll(1 + head, -1) + hidden @ weight.T for head, weight in enumerate(weights)])

    wide = [[rank] for rank in range(24)] + [[0, rank] for rank in range(24)]
    drafter = DraftModel(draft, lambda: Medusa(heads, 3, wide), 3, 48)
    session = session_of(target, drafter, sampling, new=40)
    accepted, branches = Counter(), 0
    while session.finish is None:
        step = session.step()
        accepted[step.accepted] += 1
        branches += sum(child.accepted for child in step.children)
        inner = drafter.session
        ours = logits_through_the_cache(inner, inner.ids)
        torch.testing.assert_close(ours, fresh_logits(draft, inner.ids), atol=1e-4, rtol=1e-4)
    assert branches > 5
    if same:
        assert set(accepted) <= {3, 0}
    else:
        assert accepted[0]
        assert accepted[0] < sum(accepted.values())


def test_a_transformer_with_a_transformer_inside_is_the_transformer_alone():
    draft, target = tiny(1, 1), tiny(2, 2)
    weights = torch.randn(3, 48, 32, generator=torch.Generator().manual_seed(3))

    def heads(hidden: Tensor) -> Tensor:
        return torch.stack([hidden @ weight.T for weight in weights])

    for sampling in (Sampling(), Sampling(repetition_penalty=1.3)):
        output, _ = run(target, DraftModel(draft, lambda: Medusa(heads, 3, TREE), 4, 48), sampling)
        assert output == run(target, Autoregressive(), sampling)[0]


# The law


def p_value(counts: Tensor, expected: Tensor) -> float:
    """Chi-squared test of counts [groups, cells] against expected counts; thin cells of a group are pooled."""
    statistic, freedom = 0.0, 0
    for seen, due in zip(counts, expected, strict=True):
        thick = due >= 5
        seen_cells = torch.cat([seen[thick], seen[~thick].sum().unsqueeze(0)])
        due_cells = torch.cat([due[thick], due[~thick].sum().unsqueeze(0)])
        if due_cells[-1] < 5:  # too little even when pooled: add it to the last thick cell
            seen_cells = torch.cat([seen_cells[:-2], seen_cells[-2:].sum().unsqueeze(0)])
            due_cells = torch.cat([due_cells[:-2], due_cells[-2:].sum().unsqueeze(0)])
        statistic += float(((seen_cells - due_cells) ** 2 / due_cells).sum())
        freedom += len(due_cells) - 1
    return float(torch.special.gammaincc(torch.tensor(freedom / 2).double(), torch.tensor(statistic / 2).double()))


def law_of_the_hybrid(draws: int, block: int = 3, length: int = 30) -> float:
    """p-value of the joint law of three tokens, given the one before, over `draws` blocks of the hybrid's output."""
    sampling = Sampling(0.6, top_k=5)
    generator = torch.Generator().manual_seed(1)
    target = TableTarget(torch.randn(6, 6, generator=generator))
    draft = TableTarget(target.table + 0.8 * torch.randn(6, 6, generator=generator))
    heads = heads_of(draft, 2, blur=0.5)
    drafter = DraftModel(draft, lambda: Medusa(heads, 2, [[0], [1], [0, 0]]), 2, 6)
    counts = torch.zeros(6, 6, 6, 6, dtype=torch.double)
    for seed in range(draws * block // length):
        one = Sampling(sampling.temperature, top_k=sampling.top_k, seed=seed)
        session = session_of(target, drafter, one, prompt=[seed % 6, (seed // 6) % 6], new=length)
        for _ in decode([session]):
            pass
        tokens = torch.tensor(session.ids[1:])
        before = tokens[:-1].view(-1, block)[:, 0]
        first, second, third = tokens[1:].view(-1, block).unbind(1)
        counts.index_put_((before, first, second, third), torch.ones(len(before)).double(), accumulate=True)
    assert counts.sum() == draws
    scaled = target.table.double() / sampling.temperature
    scaled[scaled < scaled.topk(sampling.top_k).values[:, -1:]] = -torch.inf
    p = scaled.exp() / scaled.exp().sum(-1, keepdim=True)
    joint = p[:, :, None, None] * p[None, :, :, None] * p[None, None, :, :]
    expected = joint * counts.sum((1, 2, 3))[:, None, None, None]
    assert counts[expected == 0].sum() == 0
    return p_value(counts.view(6, -1), expected.view(6, -1))


@pytest.mark.slow
def test_its_law_is_that_of_the_target():
    assert law_of_the_hybrid(20_000) > 0.01


@pytest.mark.slow
def test_the_same_test_sees_typical_acceptance_inside(monkeypatch):
    """What the refusal protects from: q is then not the law that the inner tokens were drawn from."""
    monkeypatch.setattr(draft_model, "Session", partial(Session, rule=Typical()))
    assert law_of_the_hybrid(1_500) < 1e-6


@pytest.mark.slow
def test_the_same_test_sees_a_distribution_that_was_not_processed(monkeypatch):
    class Unprocessed(Session):
        @property
        def laws(self) -> list[Tensor]:
            view, nodes = self._judged
            return [view.raw[node + 1].softmax(-1) for node in nodes]

    monkeypatch.setattr(draft_model, "Session", Unprocessed)
    assert law_of_the_hybrid(1_500) < 1e-6
