"""A draft for any target: its vocabulary and context, the target's embeddings, and a better guess after training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig

from playground.decoding.target import TransformersTarget
from playground.errors import UserError
from playground.models.loading import load_model
from playground.models.placement import Placement
from playground.training.gathering import Learned, Wrote
from playground.training.loop import Schedule, read_log
from playground.training.make_draft import DraftPlan, DraftRecipe, MadeDraft, agreement, build_draft, make_draft
from playground.training.prompts import Prompts
from playground.training.self_distillation import Writing
from playground.training.tokenizer import train_tokenizer
from tests.tiny import CONTEXT, tiny_target

VOCAB = 300
SCHEDULE = Schedule(40, 20, warmup=5, peak=1e-2, batch_tokens=128, row_tokens=16, decay_row_tokens=16)


def recipe(**plan: object) -> DraftRecipe:
    return DraftRecipe(DraftPlan(SCHEDULE, **plan), Writing(new_tokens=24, batch=32))  # type: ignore[arg-type]


def prompts() -> Prompts:
    return Prompts.split([[i % 280, (i * 7) % 280] for i in range(1, 121)])


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "gemma2"])
def test_a_draft_has_the_targets_vocabulary_context_and_embeddings(name: str) -> None:
    target = tiny_target(name)
    draft = build_draft(target, DraftPlan(SCHEDULE, layers=2))
    assert isinstance(draft.config, LlamaConfig)
    assert draft.config.num_hidden_layers == len(draft.model.layers) == 2
    assert draft.config.max_position_embeddings == CONTEXT
    assert torch.equal(draft.model.embed_tokens.weight, target.model.get_input_embeddings().weight)
    assert draft.lm_head.weight is draft.model.embed_tokens.weight
    assert TransformersTarget(draft).vocab_size == target.vocab_size


def test_a_llama_gives_its_draft_layers_too() -> None:
    target = tiny_target("llama-tied")
    draft = build_draft(target, DraftPlan(SCHEDULE, layers=1))
    ours, theirs = draft.model.layers[0], target.model.model.layers[0]
    assert torch.equal(ours.self_attn.q_proj.weight, theirs.self_attn.q_proj.weight)
    assert draft.lm_head.weight.requires_grad
    frozen = build_draft(target, DraftPlan(SCHEDULE, embeddings="frozen"))
    assert not frozen.lm_head.weight.requires_grad


def test_a_draft_of_another_width_has_fresh_embeddings() -> None:
    target = tiny_target("llama-tied")
    draft = build_draft(target, DraftPlan(SCHEDULE, width=64, embeddings="fresh"))
    assert draft.model.embed_tokens.weight.shape == (target.vocab_size, 64)
    with pytest.raises(UserError, match="fresh embeddings"):
        build_draft(target, DraftPlan(SCHEDULE, width=64))


@pytest.mark.parametrize(
    ("settings", "said"), [({"layers": 5}, "1 to 4"), ({"embeddings": "lent"}, "trained"), ({"width": 100}, "64")]
)
def test_drafts_that_cannot_be_are_a_sentence(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        DraftPlan(SCHEDULE, **settings)  # type: ignore[arg-type]


def test_too_little_text_is_a_sentence(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["a b c"], VOCAB, CONTEXT)
    few = Prompts([[1, 2]], [[3, 4]])
    with pytest.raises(UserError, match="more texts"):
        list(make_draft(tiny_target("llama"), tokenizer, few, recipe(), tmp_path / "work", tmp_path / "out"))


def test_a_draft_learns_loads_and_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    target = tiny_target("llama-tied", vocab=VOCAB)
    tokenizer = train_tokenizer(["some words to learn pieces from"], VOCAB, CONTEXT)

    def run(folder: Path, close_after: int | None = None) -> list[Wrote | Learned | MadeDraft]:
        events = []
        running = make_draft(target, tokenizer, prompts(), recipe(), folder / "work", folder / "out")
        for event in running:
            events.append(event)
            if len(events) == close_after:
                running.close()
        return events

    made = run(tmp_path / "straight")[-1]
    assert isinstance(made, MadeDraft)
    loaded = load_model("draft", made.folder, Placement(torch.device("cpu"), torch.float32))
    assert loaded.target.vocab_size == VOCAB
    text = torch.randint(0, 280, (200,), generator=torch.Generator().manual_seed(0)).numpy()
    before = agreement(build_draft(target, recipe().plan), target, text, 16)
    after = agreement(loaded.model, target, text, 16)
    assert after[0] < before[0]
    assert after[1] > before[1]
    card = (made.folder / "README.md").read_text()
    assert f"{made.parameters:,} parameters" in card
    assert made.trial.tokens > 0

    run(tmp_path / "closed", 2)
    run(tmp_path / "closed", 30)
    run(tmp_path / "closed")
    one, other = ([line["loss"] for line in read_log(tmp_path / name / "work")] for name in ("straight", "closed"))
    assert one == other
