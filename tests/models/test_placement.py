import psutil
import pytest
import torch

from playground.errors import UserError
from playground.models import placement
from playground.models.folder import ModelFolder
from playground.models.placement import choose_device, choose_dtype, estimate, free_memory, place
from tests.models.checkpoints import save_checkpoint

CPU = torch.device("cpu")


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine with two GPUs of 10 and 6 GB and 20 GB of main memory, as torch would describe it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: ([10**10, 6 * 10**9][device.index], 10**11))
    monkeypatch.setattr(placement, "_free_main_memory", lambda: 20 * 10**9)


def test_device(no_gpu):
    assert choose_device() == choose_device("cpu") == CPU
    for name in ("cuda", "cuda:1", "mps"):
        with pytest.raises(UserError, match=f"no device '{name}' on this machine"):
            choose_device(name)
    with pytest.raises(UserError, match="'gpu' is no device"):
        choose_device("gpu")


def test_device_with_gpus(two_gpus):
    assert choose_device() == choose_device("cuda") == torch.device("cuda", 0)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert choose_device("cpu") == CPU
    with pytest.raises(UserError, match="cuda:2"):
        choose_device("cuda:2")


def test_dtype(monkeypatch):
    assert choose_dtype("auto", CPU) == torch.float32
    assert choose_dtype("bfloat16", CPU) == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert choose_dtype("auto", torch.device("cuda", 0)) == torch.float16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert choose_dtype("auto", torch.device("cuda", 0)) == torch.bfloat16
    with pytest.raises(UserError, match="'int4' is no number format"):
        choose_dtype("int4", CPU)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3"])
def test_estimate_is_weights_and_cache(folder, bpe, name):
    model = save_checkpoint(folder, bpe, name)
    cache = 2 * 2 * (2 if name != "gpt2" else 4) * 8 * 64  # keys and values, layers, kv heads, head size, positions
    assert estimate(ModelFolder(folder), torch.float32) == 4 * (model.num_parameters() + cache)
    assert estimate(ModelFolder(folder), torch.bfloat16) == 2 * (model.num_parameters() + cache)


def test_one_device_if_it_fits(two_gpus):
    placed = place("m", 8 * 10**9, torch.bfloat16)
    assert (placed.device, placed.spread) == (torch.device("cuda", 0), None)


def test_spread_over_gpus_and_main_memory(two_gpus):
    placed = place("m", 25 * 10**9, torch.bfloat16)
    assert placed.spread == {0: 9 * 10**9, 1: int(5.4e9), "cpu": 18 * 10**9}
    assert place("m", 25 * 10**9, torch.bfloat16, "cuda").spread == placed.spread
    assert place("m", 20 * 10**9, torch.bfloat16, "cuda:1").spread == {1: int(5.4e9), "cpu": 18 * 10**9}


def test_what_fits_nowhere_is_refused_with_figures(two_gpus):
    with pytest.raises(UserError, match=r"big needs about 140.0 GB in bfloat16, and 32.4 GB are free here. Choose"):
        place("big", 140 * 10**9, torch.bfloat16)
    with pytest.raises(UserError, match=r"needs about 19.0 GB in float32, and 18.0 GB are free"):
        place("m", 19 * 10**9, torch.float32, "cpu")
    # A quarter of the 18 GB that main memory has to give; a GPU needs no copies.
    assert place("m", int(4.5e9), torch.float32, "cpu").packed
    assert not place("m", int(4.6e9), torch.float32, "cpu").packed
    assert not place("m", 10**9, torch.float32).packed


def test_a_container_may_have_less(tmp_path, monkeypatch):
    available = psutil.virtual_memory().available
    monkeypatch.setattr(placement, "CGROUP", tmp_path)
    assert free_memory(CPU) == pytest.approx(available * 0.9, rel=0.2)
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1500000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\ninactive_file 500000\n")
    assert free_memory(CPU) == 0.9 * 2000000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(CPU) == pytest.approx(available * 0.9, rel=0.2)
