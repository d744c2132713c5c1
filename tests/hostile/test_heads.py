"""Files of Medusa heads from strangers: heads that compute, or a sentence."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from playground.errors import UserError
from playground.models.medusa_heads import MedusaHeads, load_heads
from tests.hostile.wild import Watch, values

H, V = 4, 6
WATCH = Watch()
QUIET = [HealthCheck.function_scoped_fixture]  # the folder is emptied by the test itself


def right() -> dict[str, torch.Tensor]:
    return {key: tensor.clone() for key, tensor in MedusaHeads(H, 2, 1, V).state_dict().items()}


def pickled(content: object, zipped: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


FILES = {
    "medusa_lm_head.safetensors": save(right()),
    "medusa_lm_head.pt": pickled(right()),
    "legacy/medusa_lm_head.pt": pickled(right(), zipped=False),
}


def load(folder: Path) -> None:
    """Load, and compute once what was loaded."""
    with WATCH.only_in(folder, Path("/proc"), Path("/sys"), Path("/dev")):
        heads = load_heads(folder).heads
    hidden = torch.randn(2, heads.hidden_size, dtype=next(heads.parameters()).dtype)
    heads(hidden, lambda rows: torch.zeros(len(rows), V))


@settings(max_examples=900, suppress_health_check=QUIET)
@given(data=st.data(), name=st.sampled_from([*FILES]))
def test_bytes_cut_or_overwritten_anywhere(tmp_path: Path, data: st.DataObject, name: str) -> None:
    content = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(content) - 1, 900)) | st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["cut", "set", "put", "drop"])):
            case "cut":
                del content[max(1, at) :]
            case "set":
                content[at] = data.draw(st.sampled_from([0, 1, 0x2E, 0x7F, 0x80, 0xFF]))
            case "put":
                content[at:at] = data.draw(st.binary(max_size=6))
            case "drop":
                del content[at : at + 3]
        content = content or bytearray(b"x")
    file = tmp_path / Path(name).name
    file.write_bytes(content)
    with suppress(UserError):
        load(tmp_path)
    file.unlink()


shapes = st.lists(st.sampled_from([0, 1, H, V, 7]), max_size=3)
kinds = st.sampled_from(["float32", "float16", "bfloat16", "int8", "bool", "float64", "uint8"])
keys = st.sampled_from(
    [*right(), "0.1.linear.weight", "2.0.linear.weight", "-1.0.weight", "9" * 5000 + ".0.weight", "٣.0.linear.weight",
     "0." + "9" * 5000 + ".weight", "medusa_head.0.0.linear.weight", "lm_head.weight", "", "0.0", "..", "/etc/passwd"],
) | st.text(max_size=8)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=QUIET)
@given(
    data=st.data(),
    pickle_it=st.booleans(),
    config=st.none() | values,
    tree=st.none() | values,
)
def test_tables_of_any_shape_under_any_name(
    tmp_path: Path, data: st.DataObject, pickle_it: bool, config: object, tree: object
) -> None:
    tensors = right()
    for _ in range(data.draw(st.integers(0, 3))):
        key = data.draw(keys)
        if data.draw(st.booleans()):
            tensors.pop(key, None)
        else:
            tensors[key] = torch.zeros(data.draw(shapes), dtype=getattr(torch, data.draw(kinds)))
    for file in tmp_path.iterdir():
        file.unlink()
    if pickle_it:
        (tmp_path / "medusa_lm_head.pt").write_bytes(pickled(tensors))
    else:
        (tmp_path / "medusa_lm_head.safetensors").write_bytes(save(tensors))
    for name, content in (("config.json", config), ("medusa_tree.json", tree)):
        if content is not None:
            (tmp_path / name).write_text(json.dumps(content))
    with suppress(UserError):
        load(tmp_path)


def claims(name: str, length: int | None = None, **header: object) -> bytes:
    """A safetensors file with this header for one tensor, and no data."""
    text = json.dumps({name: header}).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text


@pytest.mark.parametrize(
    "content",
    [
        claims("0.0.linear.weight", dtype="F32", shape=[2**40, 2**20], data_offsets=[0, 2**62]),
        claims("0.0.linear.weight", dtype="F32", shape=[2**63, 0], data_offsets=[0, 0]),
        claims("0.0.linear.weight", dtype="F32", shape=[-1, 4], data_offsets=[0, 16]),
        claims("0.0.linear.weight", length=2**63, dtype="F32", shape=[1], data_offsets=[0, 4]),
        claims("0.0.linear.weight", length=2**30, dtype="F32", shape=[1], data_offsets=[0, 4]),
        claims("0.0.linear.weight", dtype="F32", shape=[[[]]], data_offsets=[0, 4]),
        claims("0." * 100_000, dtype="F32", shape=[0], data_offsets=[0, 0]),
    ],
    ids=["petabytes", "overflow", "negative", "header without end", "a gigabyte of header", "no shape", "a long name"],
)
def test_a_file_that_claims_more_than_it_holds(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "medusa_lm_head.safetensors").write_bytes(content)
    with pytest.raises(UserError) as told:
        load(tmp_path)
    assert len(str(told.value)) < 2000


class Runs:
    """Would write a file if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("where", ["value", "key", "deep"])
def test_code_in_a_pickle_is_not_run(tmp_path: Path, zipped: bool, where: str) -> None:
    evil = Runs(tmp_path / "ran")
    content = {"value": {"0.0.linear.weight": evil}, "key": {evil: 1}, "deep": {"a": [[{"b": evil}]]}}[where]
    (tmp_path / "medusa_lm_head.pt").write_bytes(pickled(content, zipped))
    with pytest.raises(UserError, match="hold code beside tensors"):
        load(tmp_path)
    (tmp_path / "medusa_lm_head.pt").write_bytes(pickle.dumps(content))
    with pytest.raises(UserError):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """torch reads archives that are stored as they are; compressed zeros is refused."""
    with zipfile.ZipFile(tmp_path / "medusa_lm_head.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", pickle.dumps({}))
        with file.open("archive/data/0", "w") as big:
            for _ in range(16):
                big.write(bytes(1 << 24))
    with pytest.raises(UserError):
        load(tmp_path)
