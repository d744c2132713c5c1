"""Memory that runs out in the middle of work: a sentence, and what the work held is free again."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from playground.errors import UserError

# What torch says where it raises a plain RuntimeError: on Linux, on Windows and MPS, in cuBLAS.
SAYINGS = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED")


def ran_out(error: BaseException) -> bool:
    """Whether an error of torch or Python says that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(saying in str(error) for saying in SAYINGS)


@contextmanager
def within_memory(who: str, let_go: Callable[[], None]) -> Iterator[None]:
    """Around work of `who` that may need more memory than there is: then it is freed, and UserError raised.

    `let_go` drops what outlives the failed work and is of no more use, such as its caches.
    """
    try:
        yield
        return
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        traceback.clear_frames(error.__traceback__)  # they hold the tensors of the pass that failed
    let_go()
    gc.collect()  # caches and their layers refer to each other
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    raise UserError(
        f"The memory of this machine ran out while {who} ran. Ask for fewer tokens, rows or lanes, or a smaller model."
    )
