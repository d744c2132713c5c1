"""Medusa heads learn what the model writes, in every layout, and are measured with the right denominators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaForCausalLM

from playground.models.medusa_heads import MedusaHeads, load_heads
from playground.training.family import Shape, build
from playground.training.loop import Schedule, read_log
from playground.training.medusa import HeadsPlan, head_accuracy, head_losses, train_heads, train_medusa
from playground.training.self_distillation import NO_LABEL, Positions, read_positions
from tests.tiny import tiny_model

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


@pytest.mark.parametrize(
    "layout", [{"own_vocabulary": False}, {"own_vocabulary": True}, {"own_vocabulary": True, "blocks": 0}]
)
def test_heads_learn_in_every_layout(model: LlamaForCausalLM, tmp_path: Path, layout: dict[str, object]) -> None:
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    heads = train_heads(model, foreseeable(640, 1), foreseeable(100, 2), plan(200, **layout), tmp_path)
    accuracy = head_accuracy(heads, model.lm_head, foreseeable(200, 3))
    assert min(head[0] for head in accuracy) > 0.5
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_own_vocabularies_start_as_the_bases(model: LlamaForCausalLM, tmp_path: Path) -> None:
    untrained = HeadsPlan(Schedule(0, 0), num_heads=2, own_vocabulary=True)
    heads = train_heads(model, foreseeable(64, 1), foreseeable(64, 2), untrained, tmp_path)
    hidden = torch.randn(3, 32)
    assert torch.allclose(heads(hidden, model.lm_head)[1], model.lm_head(hidden), atol=1e-5)


def test_each_head_is_divided_by_the_positions_it_has(model: LlamaForCausalLM) -> None:
    heads = MedusaHeads(32, num_heads=2, vocab_size=VOCAB, num_layers=0)
    with torch.no_grad():
        for number, head in enumerate(heads):
            head[0].weight.zero_()
            head[0].weight[10 + number] = 2.0  # first guess: token 10 + number; second guess: 20 + number
            head[0].weight[20 + number] = 1.0
    labels = torch.tensor([[10, 11], [10, NO_LABEL], [20, 21], [20, NO_LABEL], [5, NO_LABEL]])
    positions = Positions(torch.ones(5, 32).half(), labels, torch.ones(5, dtype=torch.bool))
    accuracy = head_accuracy(heads, model.lm_head, positions)
    assert [head[:2] for head in accuracy] == [pytest.approx([0.4, 0.4]), pytest.approx([0.5, 0.5])]
    losses = head_losses(heads, nn.Identity(), positions)
    seen = positions.rows(torch.tensor([0, 2]))
    assert losses[1].item() == pytest.approx(head_losses(heads, nn.Identity(), seen)[1].item())


def test_training_stops_when_the_held_out_loss_rises(model: LlamaForCausalLM, tmp_path: Path) -> None:
    seen, held_out = foreseeable(64, 1), foreseeable(64, 2)
    contrary = Positions(held_out.hidden, (held_out.labels + 7) % 20, held_out.greedy)
    # A few validations in, what fits the training text can only hurt here.
    train_heads(model, seen, contrary, plan(5000, patience=2), tmp_path)
    losses = [line["held_out_loss"] for line in read_log(tmp_path) if "held_out_loss" in line]
    assert len(read_log(tmp_path)) < 5000
    assert min(losses) not in losses[-2:]


@pytest.mark.slow
def test_from_prompts_to_a_folder_that_loads(tmp_path: Path) -> None:
    model = tiny_model("llama-tied")
    prompts = [[i % VOCAB, (i * 7) % VOCAB] for i in range(1, 140)]
    found = train_medusa(
        model, "tiny", prompts, tmp_path / "work", tmp_path / "heads", plan(20), nodes=6, new_tokens=16
    )
    loaded = load_heads(tmp_path / "heads")
    assert loaded.base == "tiny"
    assert loaded.tree == [list(path) for path in found.paths]
    assert len(found.paths) == 6
    assert (loaded.heads.num_heads, loaded.heads.version) == (2, 2)
    accuracy = json.loads((tmp_path / "heads" / "medusa_accuracy.json").read_text())
    assert [len(head) for head in accuracy] == [10, 10]
    card = (tmp_path / "heads" / "README.md").read_text()
    assert "left out" in card
    greedy = read_positions(tmp_path / "work" / "seen", 2).greedy.float().mean().item()
    assert f"itself: {greedy:.0%} greedily" in card
