"""Tests against a real vLLM server are chosen by hand: SPECPLAY_VLLM=1 python -m pytest -m vllm."""

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the variable they count as deselected, which pytest's last line says."""
    if os.environ.get("SPECPLAY_VLLM"):
        return
    left_out = [item for item in items if item.get_closest_marker("vllm")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
