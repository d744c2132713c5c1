"""What a model wrote itself, as examples: reproducible, without loops, labelled only with its own tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from playground.decoding.executor import Executor
from playground.decoding.session import Session, decode
from playground.decoding.target import TransformersTarget
from playground.drafters.autoregressive import Autoregressive
from playground.errors import UserError
from playground.training.family import Shape, build
from playground.training.self_distillation import (
    NO_LABEL,
    TextCount,
    Writing,
    continue_prompts,
    read_positions,
    read_texts,
    without_repetition,
    write_text,
)
from tests.tiny import CONTEXT, tiny_target

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13], [14], [15, 16], [17, 18, 19]]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_interrupted_run_ends_with_the_same_text(tmp_path: Path) -> None:
    target, writing = tiny_target("llama-tied"), Writing(new_tokens=12, batch=2)
    counts = list(write_text(target, PROMPTS, tmp_path, writing))
    assert [count.all for count in counts] == [2, 4, 6]
    whole = files(tmp_path)
    (tmp_path / "00001.safetensors").unlink()
    stopped = write_text(target, PROMPTS, tmp_path, writing)
    next(stopped)
    stopped.close()
    assert list(write_text(target, PROMPTS, tmp_path, writing)) == counts
    assert files(tmp_path) == whole


@pytest.mark.parametrize("name", ["llama-tied", "gemma3", "gpt2"])
def test_the_text_and_its_hidden_states_are_the_models_own(name: str) -> None:
    target = tiny_target(name)
    temperatures = [0.0, 1.0, 0.0, 0.5, 0.0, 1.0]
    drawn_otherwise = 0
    for text, hidden in continue_prompts(target, PROMPTS, temperatures, 12, seed=3):
        prompt = text.ids[: text.prompt]
        assert prompt == PROMPTS[[len(p) and p[-1] for p in PROMPTS].index(prompt[-1])]
        session = Session(Executor(target), Autoregressive(), prompt, max_new_tokens=12)
        list(decode([session]))
        if text.temperature == 0:
            assert text.ids[text.prompt :] == session.output
        else:
            drawn_otherwise += text.ids[text.prompt :] != session.output
        with torch.no_grad():
            expected = target.model.base_model(input_ids=torch.tensor([text.ids])).last_hidden_state[0, :-1]
        assert torch.allclose(hidden.float(), expected, atol=1e-2 * float(expected.abs().max()))
    assert drawn_otherwise >= 2


def test_sampled_text_has_the_models_law() -> None:
    target = tiny_target("llama-tied", vocab=12)
    prompt, rows = [3, 5, 2], 3000
    drawn = [text.ids[3] for text, _ in continue_prompts(target, [prompt] * rows, [1.0] * rows, 1, seed=0)]
    with torch.no_grad():
        p = target.model(input_ids=torch.tensor([prompt])).logits[0, -1].softmax(-1)
    seen = torch.bincount(torch.tensor(drawn), minlength=12)
    likely = p > 5 / rows
    chi2 = ((seen - rows * p) ** 2 / (rows * p))[likely].sum().item()
    assert chi2 < 40  # 11 degrees of freedom at most: exceeded with probability 4e-5


def test_a_text_ends_with_the_token_that_ends_it() -> None:
    plain = tiny_target("llama-tied")
    (text, _), *_ = continue_prompts(plain, [[5, 6, 7]], [0.0], 12, seed=0)
    end = text.ids[8]
    ending = TransformersTarget(plain.model, "ending", eos_ids=(end,))
    (short, hidden), (other, _) = continue_prompts(ending, [[5, 6, 7], [8, 9]], [0.0, 0.0], 12, seed=0)
    assert short.ids == text.ids[: text.ids.index(end, 3) + 1]
    assert len(hidden) == len(short.ids) - 1
    assert len(other.ids) > 2


def test_labels_look_ahead_within_what_the_model_wrote(tmp_path: Path) -> None:
    save_file(
        {
            "ids": torch.tensor([1, 2, 3, 4, 5, 7, 8, 9]),
            "hidden": torch.arange(6.0).unsqueeze(1).half(),
            "starts": torch.tensor([0, 5, 8]),
            "prompt": torch.tensor([3, 1]),
            "temperature": torch.tensor([0.0, 1.0]),
            "count": torch.tensor([2, 0, 0]),
        },
        tmp_path / "00000.safetensors",
    )
    no = NO_LABEL
    found = read_positions(tmp_path, num_heads=2)
    assert found.hidden[:, 0].tolist() == [0, 1, 2, 4]
    assert found.labels.tolist() == [[no, 4], [4, 5], [5, no], [9, no]]
    assert found.greedy.tolist() == [True, True, True, False]
    with_prompts = read_positions(tmp_path, num_heads=2, prompts=True)
    assert with_prompts.labels.tolist() == [[3, 4], [4, 5], [5, no], [9, no]]
    assert [text.ids for text in read_texts(tmp_path)] == [[1, 2, 3, 4, 5], [7, 8, 9]]


def test_a_loop_is_cut_off_and_what_came_before_is_kept() -> None:
    assert without_repetition([1, 2, 3, 4, 5, 6]) == [1, 2, 3, 4, 5, 6]
    assert without_repetition([1] * 14) == [1] * 4
    varied = list(range(20))
    assert without_repetition([*varied, *[30, 31] * 20]) == [*varied, *[30, 31] * 5]
    assert without_repetition([1, 2]) == [1, 2]


@given(st.lists(st.integers(0, 3), max_size=40))
def test_no_kept_text_repeats_more_than_a_fifth(ids: list[int]) -> None:
    kept = without_repetition(ids)
    assert ids[: len(kept)] == kept
    grams = [tuple(kept[at : at + 4]) for at in range(len(kept) - 3)]
    assert len(grams) - len(set(grams)) <= 0.2 * len(grams)


def test_a_model_that_repeats_itself_has_nothing_to_teach(tmp_path: Path) -> None:
    stuck = build(Shape(1, width=32, inner=48, heads=4, kv_heads=2), vocab_size=96, context=64).eval()
    stuck.model.norm.weight.data.zero_()  # all logits equal: the same token for ever
    target = TransformersTarget(stuck, "stuck", eos_ids=())
    (count,) = write_text(target, [[1, 2]], tmp_path, Writing(new_tokens=12))
    assert count == TextCount(kept=0, cut=0, dropped=1)
    assert load_file(tmp_path / "00000.safetensors")["hidden"].shape == (0, 32)
    with pytest.raises(UserError, match="no text"):
        read_positions(tmp_path, num_heads=2)


def test_more_tokens_than_the_context_holds_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Ask for fewer"):
        next(write_text(tiny_target("llama"), PROMPTS, tmp_path, Writing(new_tokens=CONTEXT)))
