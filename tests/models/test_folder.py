import json
import struct

import pytest
import torch
from safetensors.torch import save_file

from playground.errors import UserError
from playground.models.folder import ModelFolder


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "tokenizer.json").write_text("{}")
    save_file({"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}, tmp_path / "model.safetensors")
    return ModelFolder(tmp_path)


def index(folder, names):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def test_reads_headers_only(model):
    model.check()
    assert {t.name: (t.dtype, t.shape) for t in model.tensors} == {"a": ("F32", (2, 3)), "b": ("BF16", (4,))}
    assert model.parameters == 10


def test_shards(model):
    index(model.path, {"a": "two.safetensors", "b": "one.safetensors"})
    for name in ("one", "two"):
        save_file({name: torch.ones(3)}, model.path / f"{name}.safetensors")
    assert [file.name for file in model.weight_files] == ["one.safetensors", "two.safetensors"]
    assert model.parameters == 6


def test_pickled_weights_are_estimated(model):
    (model.path / "model.safetensors").unlink()
    torch.save({"a": torch.ones(1000, dtype=torch.float16)}, model.path / "pytorch_model.bin")
    assert 1000 <= model.parameters < 2000


@pytest.mark.parametrize("cut", [4, 20, 100, -4])
def test_cut_short(model, cut):
    file = model.path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(UserError, match="damaged or cut short"):
        model.check()


def test_what_is_missing(model, tmp_path):
    with pytest.raises(UserError, match="no folder"):
        ModelFolder(tmp_path / "no").check()
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="no tokenizer"):
        model.check()
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(UserError, match=r"config.json is damaged"):
        ModelFolder(tmp_path).check()
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"config.json is missing"):
        ModelFolder(tmp_path).check()


def test_an_adapter_is_no_model(model):
    (model.path / "adapter_config.json").write_text('{"base_model_name_or_path": "/etc"}')
    with pytest.raises(UserError, match="is an adapter"):
        model.check()


def test_missing_shards_are_named(model):
    index(model.path, {"a": "one.safetensors", "b": "two.safetensors"})
    with pytest.raises(UserError, match=r"incomplete: one.safetensors, two.safetensors"):
        model.check()


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "sub/x.safetensors"])
def test_nothing_outside_the_folder_is_read(model, name):
    index(model.path, {"a": name})
    with pytest.raises(UserError, match="outside its folder"):
        model.check()


def entry(**changes):
    return {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} | changes}


@pytest.mark.parametrize(
    "header",
    [
        [1],
        "text",
        None,
        {"a": 1},
        {"a": {"dtype": "F32", "shape": [1]}},
        {"a": {"shape": [1], "data_offsets": [0, 4]}},
        entry(data_offsets=["0", "4"]),
        entry(data_offsets=[0]),
        entry(shape="wide"),
        entry(shape=None),
    ],
)
def test_a_header_of_another_form_is_damage(model, header):
    text = json.dumps(header).encode()
    (model.path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"0000")
    with pytest.raises(UserError, match="damaged or cut short"):
        model.check()


def test_json_that_nests_without_end_is_damage(model):
    deep = b"[" * 100_000
    (model.path / "model.safetensors").write_bytes(struct.pack("<Q", len(deep)) + deep)
    with pytest.raises(UserError, match="damaged or cut short"):
        model.check()
    (model.path / "config.json").write_bytes(deep)
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        ModelFolder(model.path).check()


def test_a_folder_where_the_config_should_be(model):
    (model.path / "config.json").unlink()
    (model.path / "config.json").mkdir()
    with pytest.raises(UserError, match=r"config\.json cannot be read"):
        model.check()


@pytest.mark.parametrize("names", [[], 5, {"a": 5}, {"a": None}, {"a": ["x"]}])
def test_an_index_of_another_form(model, names):
    index(model.path, names)
    with pytest.raises(UserError, match=r"weight_map.* belongs"):
        model.check()


def test_an_index_with_a_name_that_no_file_can_have(model):
    index(model.path, {"a": "x" * 5000})
    with pytest.raises(UserError, match="is incomplete"):
        model.check()
