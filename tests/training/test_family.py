"""The built-in family in miniature: train all three, publish, load as anyone would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from playground.training import corpus as corpus_module
from playground.training import prompts as prompts_module
from playground.training.corpus import HeldOut, read_books
from playground.training.evaluation import agreement, bits_per_byte
from playground.training.family import FamilyPlan, Member, OwnText, Shape, build, start_from, train_family
from playground.training.forward import next_token_logits
from playground.training.loop import Schedule
from playground.training.self_distillation import Writing

VOCAB, CONTEXT = 300, 64


def shape(layers: int, exit_layer: int | None = None) -> Shape:
    return Shape(layers, width=32, inner=48, heads=4, kv_heads=2, exit_layer=exit_layer)


def schedule(steps: int) -> Schedule:
    return Schedule(steps, steps // 2, warmup=4, peak=1e-2, batch_tokens=256, row_tokens=32, decay_row_tokens=64)


@pytest.mark.slow
def test_the_family_in_miniature(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = [f"def f{i}(x):\n    return x + {i}\n" for i in range(300)]
    for module in (corpus_module, prompts_module):
        monkeypatch.setattr(module, "read_standard_library", lambda: code)
    draft = Member(shape(1), schedule(20), OwnText(20, Writing(new_tokens=8), schedule(8), schedule(8)))
    members = [Member(shape(3, 1), schedule(80)), draft, Member(shape(2), schedule(20))]
    plan = FamilyPlan(*members, unlooping=schedule(2), vocab_size=VOCAB, context=CONTEXT)
    train_family(shelf, tmp_path / "work", tmp_path / "out", plan, compiled=False)

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / "draft")
    text = read_books(shelf)[0]
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    models = {}
    for name in ("target", "draft", "small-target"):
        folder = tmp_path / "out" / name
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        assert model.config.dtype == torch.float32
        assert model.config.eos_token_id == 0
        assert AutoTokenizer.from_pretrained(folder)(text)["input_ids"] == ids[0].tolist()
        card = (folder / "README.md").read_text()
        assert "bits per byte, held-out books" in card
        assert "{" not in card
        models[name] = model
    assert models["target"].config.exit_layer == 1
    seen = HeldOut(ids[0].numpy().astype(np.uint16), len(text))
    fresh = build(shape(3, 1), VOCAB, CONTEXT)
    assert bits_per_byte(models["target"], seen, CONTEXT) < 0.7 * bits_per_byte(fresh, seen, CONTEXT)
    assert agreement(models["draft"], models["target"], seen, CONTEXT).overlap > 0.5


def test_the_walk_through_the_layers_is_the_models_own() -> None:
    model = build(shape(3), VOCAB, CONTEXT).eval()
    ids = torch.randint(1, VOCAB, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(input_ids=ids)
        assert torch.allclose(next_token_logits(model, ids), expected.logits, atol=1e-5)
        assert not torch.allclose(next_token_logits(model, ids, 2), expected.logits, atol=1e-2)


def test_a_model_agrees_with_itself_and_less_with_a_stranger() -> None:
    one, other = build(shape(2), VOCAB, CONTEXT, seed=1), build(shape(2), VOCAB, CONTEXT, seed=2)
    for parameter in (*one.parameters(), *other.parameters()):
        parameter.data *= 4
    text = HeldOut(np.arange(100, dtype=np.uint16), 300)
    same, strange = agreement(one, one, text, CONTEXT), agreement(one, other, text, CONTEXT)
    assert same.overlap == pytest.approx(1, abs=1e-5)
    assert same.same_top == 1
    assert strange.overlap < 0.9
    assert strange.same_top < 0.5


def test_bits_per_byte_of_a_model_that_knows_nothing() -> None:
    model = build(shape(1), VOCAB, CONTEXT)
    model.model.embed_tokens.weight.data.zero_()
    tokens, num_bytes = 101, 250
    text = HeldOut(np.ones(tokens, dtype=np.uint16), num_bytes)
    assert bits_per_byte(model, text, 30) == pytest.approx((tokens - 1) * np.log2(VOCAB) / num_bytes)


def test_a_student_starts_with_layers_of_its_teacher() -> None:
    teacher, student = build(shape(4), VOCAB, CONTEXT, seed=1), build(shape(2), VOCAB, CONTEXT, seed=2)
    start_from(student, teacher)
    for mine, theirs in ((0, 0), (1, 2)):
        expected = teacher.model.layers[theirs].self_attn.q_proj.weight
        assert torch.equal(student.model.layers[mine].self_attn.q_proj.weight, expected)
    assert torch.equal(student.lm_head.weight, teacher.lm_head.weight)
