"""The border to files that strangers wrote: whatever a library makes of them becomes a sentence."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

from playground.errors import UserError
from playground.models.out_of_memory import ran_out

LONGEST = 300  # characters of what a library says


@contextmanager
def reading(failure: str, advice: str = "") -> Iterator[None]:
    """Around calls into libraries that read or run what a stranger wrote. Raises UserError: `failure`, cause, `advice`.

    The one place that catches every exception: damaged files can make the libraries raise anything, and these promise
    no common base.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if ran_out(error):
            raise UserError(f"{failure}: the memory of the device ran out.") from error
        raise UserError(f"{failure}: {cause(error)}{' ' if advice else ''}{advice}") from error


def cause(error: Exception) -> str:
    """What a library said, in a line; in our words where its own help nobody."""
    text = " ".join(str(error).split())
    if isinstance(error, pickle.UnpicklingError):
        return "its weights are damaged, or hold code beside tensors, and are not opened."
    if "ignore_mismatched_sizes" in text:
        return "its weights have other shapes than its config.json says."
    if " " not in text:  # the bare key of a KeyError, or nothing
        text = f"{type(error).__name__} {text}".strip()
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text if text.endswith((".", "…")) else f"{text}."
