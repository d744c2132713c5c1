"""What all tests share: repeatable randomness and one thread, so that a failure is the same on every machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
import torch
from hypothesis import settings

from playground.models.catalog import Entry, load_catalog
from playground.models.loading import LoadedModel, load_model
from playground.models.placement import Placement

# Never a time limit: these tests run beside other work. Fixed examples: a red run must be red again.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
torch.set_num_threads(1)


@dataclass(frozen=True)
class Family:
    """A real target and, where the catalog has one, its draft; loaded as the product loads them.

    `tokens` is how many a comparison should decode: fewer where each costs more.
    """

    target: LoadedModel
    draft: LoadedModel | None
    tokens: int


@pytest.fixture(scope="session", params=["built-in", pytest.param("smollm2-135m", marks=pytest.mark.slow)])
def family(request: pytest.FixtureRequest) -> Family:
    """A catalog family in float32 on the CPU, fetched where it is not here; if that fails, so do its tests."""
    entry = load_catalog().families[request.param]

    def load(part: Entry | None) -> LoadedModel | None:
        if part is None:
            return None
        return load_model(part.id, part.source.fetch(), Placement(torch.device("cpu"), torch.float32, packed=True))

    target = load(entry.target)
    assert target is not None
    return Family(target, load(entry.draft), tokens=32 if target.parameters < 20e6 else 12)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests against a real vLLM server are chosen by hand: SPECPLAY_VLLM=1 python -m pytest -m vllm.

    Without the variable they count as deselected, which pytest's last line says.
    """
    if os.environ.get("SPECPLAY_VLLM"):
        return
    left_out = [item for item in items if item.get_closest_marker("vllm")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
