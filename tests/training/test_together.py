"""Medusa-2: base and heads move together, the original stays, and the checkpoint is the official one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from playground.errors import UserError
from playground.models.loading import load_model
from playground.models.medusa_heads import MedusaHeads, load_heads
from playground.models.placement import Placement
from playground.training.gathering import Learned
from playground.training.loop import Schedule, read_log
from playground.training.make_heads import Made
from playground.training.prompts import Prompts
from playground.training.self_distillation import Text, Writing, write_text
from playground.training.together import NO_LABEL, TogetherPlan, _rows, train_together
from playground.training.tokenizer import train_tokenizer
from tests.tiny import CONTEXT, tiny_target

VOCAB = 300
TARGET = tiny_target("llama-tied", vocab=VOCAB)
SCHEDULE = Schedule(40, 20, warmup=5, peak=1e-3, batch_tokens=256, row_tokens=32, decay_row_tokens=32)


def prompts() -> Prompts:
    return Prompts.split([[i % 280, (i * 7) % 280] for i in range(1, 121)])


def heads() -> MedusaHeads:
    return MedusaHeads(32, num_heads=2)


def write(work: Path) -> None:
    writing = Writing(new_tokens=20, batch=64)
    for part, beginnings in (("seen", prompts().seen), ("held_out", prompts().held_out)):
        for _ in write_text(TARGET, beginnings, work / part, writing):
            pass


def run(folder: Path, plan: TogetherPlan, close_after: int | None = None) -> list[Learned | Made]:
    write(folder)
    tokenizer = train_tokenizer(["some words to learn pieces from"], VOCAB, CONTEXT)
    running = train_together(TARGET, heads(), tokenizer, prompts(), plan, folder, folder / "out", nodes=6)
    events = []
    for event in running:
        events.append(event)
        if len(events) == close_after:
            running.close()
    return events


def test_labels_are_what_the_model_wrote() -> None:
    no = NO_LABEL
    rows = _rows([Text([1, 2, 3, 4, 5], 2, 0.0), Text([7, 8, 9], 1, 1.0)], 2, 100, 0.1, torch.device("cpu"))
    assert rows.ids.tolist() == [[1, 2, 3, 4, 5], [7, 8, 9, 0, 0]]
    assert rows.labels[0].tolist() == [[no, 3, 4], [3, 4, 5], [4, 5, no], [5, no, no]]
    assert rows.labels[1].tolist() == [[8, 9, no], [9, no, no], [no, no, no], [no, no, no]]
    cut = _rows([Text([1, 2, 3, 4, 5], 2, 0.0)], 2, 2, 0.1, torch.device("cpu"))
    assert cut.ids.tolist() == [[1, 2, 3]]
    assert cut.labels[0].tolist() == [[no, 3, 4], [3, 4, 5]]


def test_the_heads_weight_grows_along_a_quarter_of_a_sine() -> None:
    plan = TogetherPlan(SCHEDULE, head_weight=0.2, ramp=0.5)
    assert plan.head_weight_at(0) == 0
    assert plan.head_weight_at(15) == pytest.approx(0.2 * math.sin(math.pi / 4))
    assert plan.head_weight_at(30) == plan.head_weight_at(59) == pytest.approx(0.2)


def test_base_and_heads_learn_and_the_checkpoint_loads(tmp_path: Path) -> None:
    before = {name: weight.clone() for name, weight in TARGET.model.state_dict().items()}
    made = run(tmp_path, TogetherPlan(SCHEDULE))[-1]
    assert isinstance(made, Made)
    assert all(torch.equal(weight, before[name]) for name, weight in TARGET.model.state_dict().items())
    loaded = load_model("both", made.folder, Placement(torch.device("cpu"), torch.float32))
    after = loaded.model.state_dict()
    assert after.keys() == before.keys()
    assert any(not torch.equal(weight, before[name]) for name, weight in after.items())
    inside = load_heads(made.folder)
    assert (inside.heads.num_heads, inside.heads.version) == (2, 2)
    assert inside.tree == made.tree.own
    assert inside.notices == []
    assert any(weight.abs().max() > 0 for weight in inside.heads.parameters())
    assert "KL(original || base)" in (made.folder / "README.md").read_text()


def test_the_original_holds_the_base(tmp_path: Path) -> None:
    def kl(name: str, weight: float) -> float:
        plan = TogetherPlan(SCHEDULE, head_weight=1.0, original_weight=weight)
        run(tmp_path / name, plan)
        return [line["held_out_kl"] for line in read_log(tmp_path / name / "together") if "held_out_kl" in line][-1]

    assert kl("held", 5.0) < 0.7 * kl("free", 0.0)


def test_a_closed_run_repeats_every_loss(tmp_path: Path) -> None:
    run(tmp_path / "straight", TogetherPlan(SCHEDULE))
    for close_after in (3, 20):
        run(tmp_path / "closed", TogetherPlan(SCHEDULE), close_after)
    run(tmp_path / "closed", TogetherPlan(SCHEDULE))
    one, other = ([line["loss"] for line in read_log(tmp_path / name / "together")] for name in ("straight", "closed"))
    assert one == other


def test_without_text_there_is_a_sentence(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["words"], VOCAB, CONTEXT)
    with pytest.raises(UserError, match="train heads there first"):
        next(train_together(TARGET, heads(), tokenizer, prompts(), TogetherPlan(SCHEDULE), tmp_path, tmp_path / "out"))
