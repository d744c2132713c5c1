"""Medusa heads learn what the model writes, in every layout, and are measured with the right denominators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import LlamaForCausalLM

from playground.errors import UserError
from playground.models.medusa_heads import MedusaHeads
from playground.training.family import Shape, build
from playground.training.loop import Schedule, read_log
from playground.training.medusa import (
    RANKS,
    HeadsPlan,
    accuracy_by_rank,
    decayed_loss,
    draw_candidates,
    label_ranks,
    learn,
    new_heads,
)
from playground.training.self_distillation import NO_LABEL, Positions

VOCAB = 64


@pytest.fixture
def model() -> LlamaForCausalLM:
    return build(Shape(1, width=32, inner=48, heads=4, kv_heads=2), vocab_size=VOCAB, context=64).eval()


def foreseeable(count: int, seed: int) -> Positions:
    """Positions whose next tokens can be read off the hidden state."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 20, (count,), generator=generator)
    table = torch.randn(20, 32, generator=torch.Generator().manual_seed(0))
    labels = torch.stack([(tokens + 1) % 20, (tokens + 2) % 20], dim=1)
    return Positions(table[tokens].half(), labels, torch.ones(count, dtype=torch.bool))


def plan(steps: int = 60, **settings: object) -> HeadsPlan:
    schedule = Schedule(steps, 10, warmup=5, peak=2e-2, batch_tokens=64)
    return HeadsPlan(schedule, num_heads=2, **settings)  # type: ignore[arg-type]


def learned(
    model: LlamaForCausalLM, seen: Positions, held_out: Positions, chosen: HeadsPlan, work: Path
) -> MedusaHeads:
    heads = new_heads(model.lm_head, chosen)
    for _ in learn(heads, model.lm_head, seen, held_out, chosen, work):
        pass
    return heads


@pytest.mark.parametrize("variant", ["shared-head", "own-vocabulary", "linear"])
def test_heads_learn_in_every_layout_and_the_base_stays(model: LlamaForCausalLM, tmp_path: Path, variant: str) -> None:
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    heads = learned(model, foreseeable(640, 1), foreseeable(100, 2), plan(200, variant=variant), tmp_path)
    assert heads.version == (2 if variant == "shared-head" else 1)
    assert heads.num_layers == (0 if variant == "linear" else 1)
    accuracy = accuracy_by_rank(label_ranks(heads, model.lm_head, foreseeable(200, 3)))
    assert min(head[0] for head in accuracy) > 0.5
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    last = read_log(tmp_path)[-1]
    assert last["accuracy_2"] > 0.5


def test_heads_learn_among_a_few_candidates(model: LlamaForCausalLM, tmp_path: Path) -> None:
    chosen = plan(200, candidates=8)
    chosen = replace(chosen, schedule=replace(chosen.schedule, batch_tokens=12))  # 24 labels, 8 others
    heads = learned(model, foreseeable(640, 1), foreseeable(100, 2), chosen, tmp_path)
    accuracy = accuracy_by_rank(label_ranks(heads, model.lm_head, foreseeable(200, 3)))
    assert min(head[0] for head in accuracy) > 0.5


def test_few_candidates_stand_for_the_whole_vocabulary() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 5, 400, generator=generator)
    labels = torch.tensor([[3], [7], [NO_LABEL], [3], [399]])
    whole = logits[:, labels[:, 0] != NO_LABEL].logsumexp(-1)
    torch.manual_seed(1)
    sums = []
    for _ in range(500):
        found = draw_candidates(labels, 400, 40)
        assert found.tokens[:3].tolist() == [3, 7, 399]
        assert len(found.tokens.unique()) == 43
        assert found.labels.tolist() == [[0], [1], [NO_LABEL], [0], [2]]
        narrow = logits[:, labels[:, 0] != NO_LABEL][..., found.tokens] + found.bias
        sums.append(narrow.exp().sum(-1))
    torch.testing.assert_close(torch.stack(sums).mean(0).log(), whole, atol=0.02, rtol=0)


def test_own_vocabularies_start_as_the_bases(model: LlamaForCausalLM) -> None:
    heads = new_heads(model.lm_head, plan(variant="own-vocabulary"))
    hidden = torch.randn(3, 32)
    assert torch.allclose(heads(hidden, model.lm_head)[1], model.lm_head(hidden), atol=1e-5)


def test_heads_that_cannot_be_are_a_sentence() -> None:
    for settings, said in (
        ({"variant": "none"}, "shared-head"),
        ({"blocks": 0}, "at least one layer"),
        ({"candidates": 0}, "0 candidates"),
    ):
        with pytest.raises(UserError, match=said):
            plan(**settings)
    with pytest.raises(UserError, match="1 to 10 heads"):
        HeadsPlan(Schedule(1, 1), num_heads=0)


def test_each_head_is_divided_by_the_positions_it_has(model: LlamaForCausalLM) -> None:
    heads = MedusaHeads(32, num_heads=2, vocab_size=VOCAB, num_layers=0)
    with torch.no_grad():
        for number, head in enumerate(heads):
            head[0].weight.zero_()
            head[0].weight[10 + number] = 2.0  # first guess: token 10 + number; second guess: 20 + number
            head[0].weight[20 + number] = 1.0
            head[0].weight[63] = -1.0
    no = NO_LABEL
    labels = torch.tensor([[10, 11], [10, no], [20, 21], [20, no], [63, no]])
    positions = Positions(torch.ones(5, 32).half(), labels, torch.ones(5, dtype=torch.bool))
    ranks = label_ranks(heads, model.lm_head, positions)
    assert ranks.tolist() == [[0, 0], [0, no], [1, 1], [1, no], [RANKS, no]]
    accuracy = accuracy_by_rank(ranks)
    assert [head[:2] for head in accuracy] == [pytest.approx([0.4, 0.4]), pytest.approx([0.5, 0.5])]


def test_the_loss_is_the_papers_sum_over_labelled_positions() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, VOCAB, generator=generator)
    no = NO_LABEL
    labels = torch.tensor([[1, 2, no], [3, no, no], [4, 5, no], [no, no, no]])
    expected = F.cross_entropy(logits[0, :3], labels[:3, 0]) + 0.8 * F.cross_entropy(
        logits[1, [0, 2]], labels[[0, 2], 1]
    )
    assert decayed_loss(logits, labels, 0.8).item() == pytest.approx(expected.item())


def test_training_stops_when_the_held_out_loss_rises_and_keeps_the_best(
    model: LlamaForCausalLM, tmp_path: Path
) -> None:
    seen, held_out = foreseeable(64, 1), foreseeable(64, 2)
    contrary = Positions(held_out.hidden, (held_out.labels + 7) % 20, held_out.greedy)
    # A few validations in, what fits the training text can only hurt here.
    heads = learned(model, seen, contrary, plan(3000, patience=2), tmp_path)
    losses = [line["held_out_loss"] for line in read_log(tmp_path) if "held_out_loss" in line]
    assert len(read_log(tmp_path)) < 3000
    assert min(losses) not in losses[-2:]
    best = torch.load(tmp_path / "best.pt", weights_only=True)["model"]
    assert all(torch.equal(weight, best[name]) for name, weight in heads.state_dict().items())


def test_no_layer_of_the_base_learns_beside_the_heads(model: LlamaForCausalLM, tmp_path: Path) -> None:
    """The base's matrix is read as a constant, whatever its parameters ask for."""
    assert isinstance(model.lm_head, nn.Linear)
    assert model.lm_head.weight.requires_grad
    steps = learn(
        new_heads(model.lm_head, plan()), model.lm_head, foreseeable(64, 1), foreseeable(64, 2), plan(), tmp_path
    )
    next(steps)
    steps.close()
    assert model.lm_head.weight.grad is None
