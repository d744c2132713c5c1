"""Unlearning to write in circles."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from playground.training.family import Shape, build
from playground.training.loop import Optimizer
from playground.training.unlikelihood import CONTINUATION, PREFIX, go_on, looping, repeating, unlikelihood

VOCAB = 40
TEXT = np.random.default_rng(0).integers(1, VOCAB, 4000).astype(np.uint16)


def tiny_model():
    return build(Shape(2, width=32, inner=48, heads=4, kv_heads=2), VOCAB, PREFIX + CONTINUATION)


@given(st.lists(st.integers(0, 2), min_size=4, max_size=24))
def test_a_token_repeats_if_an_n_gram_with_it_was_there_before(row):
    wanted = [False] * len(row)
    for at in range(len(row) - 3):
        if any(row[at : at + 4] == row[first : first + 4] for first in range(at)):
            wanted[at : at + 4] = [True] * 4
    assert repeating(torch.tensor([row]))[0].tolist() == wanted


def test_a_text_goes_on_greedily_with_as_many_tokens_as_asked():
    model = tiny_model()
    beginning = torch.tensor([[5, 6, 7, 8]])
    written = go_on(model, beginning, 10)
    assert written.shape == (1, 14)
    for at in range(4, 14):
        logits = model(written[:, :at]).logits[0, -1]
        logits[0] = -torch.inf  # the end of a text is not written before its time
        assert written[0, at] == logits.argmax()


def test_circles_are_unlearned_and_the_text_is_still_learned():
    model = tiny_model()
    optimizer = Optimizer(model)
    ids = torch.from_numpy(TEXT[: 8 * 65].astype(np.int64)).view(8, 65)

    def likelihood(ids):
        logits = model(ids[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    before = looping(model, TEXT, texts=20)
    assert before > 0.8  # as fresh models do
    loss_of = unlikelihood(model, likelihood)
    began = likelihood(ids).item()
    for _ in range(40):
        loss_of(ids).backward()
        optimizer.step(1e-2)
    assert looping(model, TEXT, texts=20) < before - 0.3
    assert likelihood(ids).item() < began
