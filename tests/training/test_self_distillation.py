"""What a model wrote itself, as examples: reproducible, without loops, labelled only with its own tokens."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from playground.errors import UserError
from playground.training.family import Shape, build
from playground.training.self_distillation import NO_LABEL, read_positions, repeated_share, write_text
from tests.tiny import tiny_model

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13], [14], [15, 16], [17, 18, 19]]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return tiny_model("llama-tied")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_interrupted_run_ends_with_the_same_text(model: LlamaForCausalLM, tmp_path: Path) -> None:
    count = write_text(model, PROMPTS, tmp_path, new_tokens=12, batch=2)
    whole = files(tmp_path)
    assert len(whole) == 3
    (tmp_path / "00001.safetensors").unlink()
    assert write_text(model, PROMPTS, tmp_path, new_tokens=12, batch=2) == count
    assert files(tmp_path) == whole


def test_the_greedy_text_and_its_hidden_states_are_the_models_own(model: LlamaForCausalLM, tmp_path: Path) -> None:
    write_text(model, PROMPTS, tmp_path, new_tokens=12)
    shard = load_file(tmp_path / "00000.safetensors")
    prompt_of = {prompt[-1]: prompt for prompt in PROMPTS}
    bounds = [*shard["starts"].tolist(), len(shard["ids"])]
    agree = []
    for start, end in pairwise(bounds):
        ids = shard["ids"][start:end].tolist()
        prompt = prompt_of[ids[0]]
        with torch.no_grad():
            output = model(input_ids=torch.tensor([prompt[:-1] + ids]), output_hidden_states=True)
        greedy = prompt in PROMPTS[::2]
        assert shard["greedy"][start:end].tolist() == [greedy] * len(ids)
        agree.append((greedy, output.logits[0, len(prompt) - 1 : -1].argmax(-1).tolist() == ids[1:]))
        expected = output.hidden_states[-1][0, len(prompt) - 1 :]
        assert torch.allclose(shard["hidden"][start:end].float(), expected, atol=1e-2)
    assert (True, True) in agree
    assert (False, False) in agree
    assert (True, False) not in agree


def test_labels_look_ahead_and_stop_at_the_end_of_each_text(tmp_path: Path) -> None:
    save_file(
        {
            "ids": torch.tensor([1, 2, 3, 4, 7, 8, 9]),
            "hidden": torch.zeros(7, 4, dtype=torch.float16),
            "starts": torch.tensor([0, 4]),
            "greedy": torch.ones(7, dtype=torch.bool),
        },
        tmp_path / "00000.safetensors",
    )
    no = NO_LABEL
    labels = read_positions(tmp_path, num_heads=2).labels.tolist()
    assert labels == [[3, 4], [4, no], [no, no], [no, no], [9, no], [no, no], [no, no]]


def test_repetition_is_measured_on_4_grams() -> None:
    assert repeated_share([1, 2, 3, 4, 5, 6]) == 0
    assert repeated_share([1] * 14) == pytest.approx(10 / 11)
    assert repeated_share([1, 2]) == 0


def test_a_model_that_repeats_itself_has_nothing_to_teach(model: LlamaForCausalLM, tmp_path: Path) -> None:
    stuck = build(Shape(1, width=32, inner=48, heads=4, kv_heads=2), vocab_size=96, context=64).eval()
    stuck.model.norm.weight.data.zero_()  # all logits equal: the same token for ever, or the end at once
    stuck.generation_config.eos_token_id = None
    count = write_text(stuck, PROMPTS[:1], tmp_path, new_tokens=12)
    assert (count.kept, count.repetitive) == (0, 1)
    with pytest.raises(UserError, match="no text"):
        read_positions(tmp_path, num_heads=2)
