import pickle

import pytest
import torch

from playground.errors import UserError
from playground.models.strangers import LONGEST, cause, reading


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("weight"), "It failed: KeyError 'weight'. Try."),
        (EOFError(), "It failed: EOFError. Try."),
        (ValueError("two\n  lines"), "It failed: two lines. Try."),
        (pickle.UnpicklingError("set weights_only=False"), "It failed: its weights are damaged, or hold code"),
        (torch.OutOfMemoryError("a table of numbers"), "It failed: the memory of the device ran out."),
        (UserError("Ours."), "Ours."),
    ],
)
def test_whatever_is_raised_becomes_a_sentence(error, says):
    with pytest.raises(UserError) as told, reading("It failed", "Try."):
        raise error
    assert str(told.value).startswith(says)


def test_a_visitor_who_interrupts_is_not_held_up():
    with pytest.raises(KeyboardInterrupt), reading("It failed"):
        raise KeyboardInterrupt


def test_long_texts_are_cut():
    assert len(cause(ValueError("word " * 1000))) == LONGEST
