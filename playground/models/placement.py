"""Where a model goes: device, number format, and whether it fits, decided before a weight is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from playground.errors import UserError
from playground.models.folder import ModelFolder

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CACHE_TOKENS = 2048
"""Positions of the KV cache that the estimate reckons with."""
HEADROOM = 0.1
"""Part of the free memory that stays free, for activations and for the rest of the machine."""
PACKED_SHARE = 0.25
"""Part of the free memory that a model may take and still be held a second time, packed for the processor."""
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Placement:
    """One device; or, where that is too small, `spread` over GPUs and main memory: {device: bytes} for accelerate.

    `packed`: the processor gets copies of the matrices in its own layout, which takes their size once more.
    """

    device: torch.device
    dtype: torch.dtype
    spread: dict[int | str, int] | None = None
    packed: bool = False


def choose_device(name: str = "auto") -> torch.device:
    """ "auto" takes the first GPU there is. Raises UserError for a device that is not there."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", 0)
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"{name!r} is no device: give auto, cpu, cuda, cuda:1 or mps.") from error
    there = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    if (device.index or 0) >= there.get(device.type, 0):
        raise UserError(f"There is no device {name!r} on this machine: use auto or cpu.")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """ "auto" is float32 on a CPU, where half the bytes are not half the time and greedy output is exactly
    reproducible, and bfloat16 on a GPU (float16 where it lacks that). Raises UserError for any other name."""
    if name == "auto":
        if device.type == "cpu":
            return torch.float32
        return torch.float16 if device.type == "mps" or not torch.cuda.is_bf16_supported() else torch.bfloat16
    if name not in DTYPES:
        raise UserError(f"{name!r} is no number format: give auto, {', '.join(DTYPES)}.")
    return DTYPES[name]


def estimate(folder: ModelFolder, dtype: torch.dtype) -> int:
    """Bytes that the model in `folder` will take: its weights, and a KV cache of CACHE_TOKENS positions."""
    return (folder.parameters + _cache_values(folder.config)) * dtype.itemsize


def place(name: str, size: int, dtype: torch.dtype, device: str = "auto") -> Placement:
    """Where `size` bytes go: one device if they fit, else GPUs and main memory together.

    Raises UserError, with the figures, if they fit nowhere.
    """
    chosen = choose_device(device)
    room = free_memory(chosen)
    if size <= room:
        return Placement(chosen, dtype, packed=chosen.type == "cpu" and size <= PACKED_SHARE * room)
    if chosen.type == "cuda":
        gpus = range(torch.cuda.device_count()) if device in ("auto", "cuda") else [chosen.index]
        spread: dict[int | str, int] = {gpu: free_memory(torch.device("cuda", gpu)) for gpu in gpus}
        spread["cpu"] = free_memory(torch.device("cpu"))
        room = sum(spread.values())
        if size <= room:
            return Placement(chosen, dtype, spread)
    raise UserError(
        f"{name} needs about {_gb(size)} in {_name(dtype)}, and {_gb(room)} are free here. "
        "Choose a smaller model or a number format with fewer bytes, or close what uses the memory."
    )


def free_memory(device: torch.device) -> int:
    """Bytes that may be used on `device`, HEADROOM already taken off."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _free_main_memory()
    return int(free * (1 - HEADROOM))


def _free_main_memory() -> int:
    """What the machine has available, or the container if that allows less."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = int((CGROUP / "memory.max").read_text())
        used = int((CGROUP / "memory.current").read_text())
        cached = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or "max": no limit
        return available
    return min(available, limit - used + int(cached.get("inactive_file", 0)))


def _cache_values(config: dict[str, object]) -> int:
    """Numbers in the KV cache, or 0 where the config does not use the common names."""

    def number(*names: str) -> int:
        return next((value for name in names if isinstance(value := config.get(name), int)), 0)

    heads = number("num_attention_heads", "n_head")
    head_dim = number("head_dim") or number("hidden_size", "n_embd") // max(1, heads)
    layers, kv_heads = number("num_hidden_layers", "n_layer"), number("num_key_value_heads") or heads
    tokens = min(CACHE_TOKENS, number("max_position_embeddings", "n_positions") or CACHE_TOKENS)
    return 2 * layers * kv_heads * head_dim * tokens


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
