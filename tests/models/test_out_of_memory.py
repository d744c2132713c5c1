"""What counts as memory that ran out, and that it is free again when that is told."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from playground.errors import UserError
from playground.models.out_of_memory import ran_out, within_memory


def test_torch_itself_is_understood() -> None:
    with pytest.raises((RuntimeError, MemoryError)) as told:
        torch.empty(2**60, dtype=torch.uint8)
    assert ran_out(told.value)
    assert ran_out(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert not ran_out(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not ran_out(ValueError("not enough memory"))


class Cache:
    """Refers to itself, as caches and their layers do."""

    def __init__(self) -> None:
        self.layer = self


def test_what_the_work_held_is_free_when_it_is_told() -> None:
    alive: list[weakref.ref[Cache]] = []
    kept = [Cache()]

    def work() -> None:
        made = Cache()
        alive.extend([weakref.ref(made), weakref.ref(kept[0])])
        raise torch.OutOfMemoryError("CUDA out of memory.")

    gc.collect()
    gc.disable()  # nobody else may do it
    try:
        with pytest.raises(UserError, match="ran out while Medusa ran"), within_memory("Medusa", kept.clear):
            work()
        assert [ref() for ref in alive] == [None, None]
    finally:
        gc.enable()


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="a defect"), within_memory("Medusa", lambda: None):
        raise RuntimeError("a defect")
