"""ZeroGPU, a kind of Hugging Face Space: a GPU is lent to one call at a time, in a process forked from this one.

So models are put on the GPU before anybody asks, a call says for how long it wants one, and what it leaves in memory is
lost. Source: https://huggingface.co/docs/hub/spaces-zerogpu. Anywhere else the package `spaces` is not needed, and
models are loaded when they are asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from playground.models.catalog import Catalog
from playground.models.store import ModelStore
from playground.run import WARM_TOKENS, RunSpec

ON_ZERO_GPU = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")  # as the package reads it
if ON_ZERO_GPU:
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"  # transformers would load in threads, see preload
    import spaces  # it wants to come before anything that touches CUDA

FAMILIES = ("built-in", "smollm2-135m")
"""What is in memory on ZeroGPU; nothing else is loaded there."""

BEGIN_SECONDS = 10
PASS_SECONDS = 0.1
PROOF_SECONDS = 30
"""Bounds, not predictions: time that was asked for and not used is not charged; a run that needs more is cut off."""

Given = ParamSpec("Given")
Told = TypeVar("Told")


def preload(store: ModelStore, catalog: Catalog) -> Catalog:
    """Load all of FAMILIES into `store`, fetched if need be; the catalog of these alone. Raises UserError if one fails.

    Not in a thread: `spaces` pretends that there is a GPU only in the one that imported it.
    """
    chosen = catalog.only(FAMILIES)
    for family in chosen.families.values():
        of_target = (family.target, family.heads)
        for model, heads in (of_target, (family.draft, None), (family.hybrid_draft, family.hybrid_heads)):
            if model is not None:
                with store.lease(model.source) as base:
                    if heads is not None:
                        with store.lease_heads(heads.source, base):
                            pass
    return chosen


def gpu(function: Callable[Given, Iterator[Told]], seconds: Callable[Given, int]) -> Callable[Given, Iterator[Told]]:
    """`function`, a generator function, lent a GPU for the `seconds` its arguments need; itself where none is lent.

    Arguments and what it yields are pickled on ZeroGPU. An error there loses its text, unless it is a gr.Error.
    """
    if not ON_ZERO_GPU:
        return function
    lent: Callable[Given, Iterator[Told]] = spaces.GPU(function, duration=seconds)
    return lent


def run_seconds(spec: RunSpec) -> int:
    """What to ask for so that every lane of `spec` can end, even one whose every pass brings one token."""
    return BEGIN_SECONDS + math.ceil(PASS_SECONDS * len(spec.lanes) * (spec.max_new_tokens + WARM_TOKENS))
