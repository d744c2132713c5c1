import json
import pickle
import re

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from playground.errors import UserError
from playground.models.medusa_heads import MedusaHeads, load_heads, save_heads
from playground.models.medusa_trees import OwnTree, load_tree

H, V = 8, 11


def random_heads(num_heads=3, num_layers=1, vocab_size=V) -> MedusaHeads:
    torch.manual_seed(num_heads)
    heads = MedusaHeads(H, num_heads, num_layers, vocab_size)
    for parameter in heads.parameters():
        nn.init.normal_(parameter, std=0.5)
    return heads


def official(num_heads=3, layers=1, own=True, dtype=torch.float32) -> dict[str, torch.Tensor]:
    """The published key layout, spelled out without our classes."""
    torch.manual_seed(7)
    tensors = {}
    for head in range(num_heads):
        for layer in range(layers):
            tensors[f"{head}.{layer}.linear.weight"] = torch.randn(H, H, dtype=dtype)
            tensors[f"{head}.{layer}.linear.bias"] = torch.randn(H, dtype=dtype)
        if own:
            tensors[f"{head}.{layers}.weight"] = torch.randn(V, H, dtype=dtype)
    return tensors


def by_hand(tensors, hidden, lm_head, num_heads=3, layers=1):
    """Logits of each head, from the formulas of the paper."""
    logits = []
    for head in range(num_heads):
        x = hidden
        for layer in range(layers):
            weight, bias = (tensors[f"{head}.{layer}.linear.{name}"] for name in ("weight", "bias"))
            z = x @ weight.T + bias
            x = x + z * torch.sigmoid(z)
        own = tensors.get(f"{head}.{layers}.weight")
        logits.append(lm_head(x) if own is None else x @ own.T)
    return torch.stack(logits)


@pytest.fixture
def lm_head():
    torch.manual_seed(3)
    return nn.Linear(H, V, bias=False).requires_grad_(False)


@pytest.fixture
def hidden():
    torch.manual_seed(4)
    return torch.randn(5, H)


class TestForward:
    @pytest.mark.parametrize("own", [True, False])
    @pytest.mark.parametrize("layers", [1, 2])
    def test_is_the_published_formula(self, tmp_path, hidden, lm_head, own, layers):
        tensors = official(layers=layers, own=own)
        torch.save(tensors, tmp_path / "medusa_lm_head.pt")
        heads = load_heads(tmp_path).heads
        assert (heads.num_heads, heads.num_layers, heads.version) == (3, layers, 1 if own else 2)
        expected = by_hand(tensors, hidden, lm_head, layers=layers)
        torch.testing.assert_close(heads(hidden, lm_head), expected)

    def test_untrained_blocks_change_nothing(self, hidden, lm_head):
        shared = MedusaHeads(H, 2)
        assert torch.equal(shared(hidden, lm_head)[1], lm_head(hidden))
        own = MedusaHeads(H, 2, vocab_size=V)
        own.start_from(lm_head.weight)
        assert torch.equal(own(hidden, lm_head)[0], lm_head(hidden))

    def test_can_be_trained(self, hidden, lm_head):
        heads = MedusaHeads(H, 2)
        heads(hidden, lm_head).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in heads.parameters())


class TestLoad:
    @pytest.mark.parametrize("heads", [1, 2, 5])
    @pytest.mark.parametrize(("layers", "own"), [(0, True), (1, True), (2, True), (1, False), (2, False)])
    @pytest.mark.parametrize("name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors", "model.safetensors"])
    def test_every_size_and_file(self, tmp_path, heads, layers, own, name):
        tensors = official(heads, layers, own)
        (torch.save if name.endswith(".pt") else save_file)(tensors, tmp_path / name)
        for path in (tmp_path, tmp_path / name):
            loaded = load_heads(path)
            assert loaded.heads.num_heads == heads
            assert loaded.heads.state_dict().keys() == tensors.keys()
            assert all(torch.equal(loaded.heads.state_dict()[key], tensors[key]) for key in tensors)
            assert not any(p.requires_grad for p in loaded.heads.parameters())
            assert loaded.notices == []

    def test_file_counts_not_config(self, tmp_path):
        torch.save(official(3), tmp_path / "medusa_lm_head.pt")
        config = {"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": "lmsys/vicuna-7b-v1.3"}
        (tmp_path / "config.json").write_text(json.dumps(config))
        loaded = load_heads(tmp_path)
        assert loaded.heads.num_heads == 3
        assert loaded.base == "lmsys/vicuna-7b-v1.3"
        (notice,) = loaded.notices
        assert "says 5 heads, but its file holds 3" in notice

    def test_blocks_shared_between_layers(self, tmp_path, hidden, lm_head):
        """The published class repeats one block object L times; its state dict holds the block L times."""
        tensors = official(2, 1)
        for head in range(2):
            tensors[f"{head}.3.weight"] = tensors.pop(f"{head}.1.weight")
            for layer in (1, 2):
                for name in ("weight", "bias"):
                    tensors[f"{head}.{layer}.linear.{name}"] = tensors[f"{head}.0.linear.{name}"]
        torch.save(tensors, tmp_path / "medusa_lm_head.pt")
        heads = load_heads(tmp_path).heads
        assert heads.num_layers == 3
        torch.testing.assert_close(
            heads(hidden, lm_head), by_hand(tensors, hidden, lm_head, 2, 3), rtol=1e-4, atol=1e-4
        )
        save_heads(heads, tmp_path / "again", "base", pickled=False)
        assert load_heads(tmp_path / "again").heads.num_layers == 3

    @pytest.mark.parametrize("shards", [False, True])
    @pytest.mark.parametrize("pickled", [False, True])
    def test_heads_inside_a_full_checkpoint(self, tmp_path, shards, pickled):
        config = LlamaConfig(
            vocab_size=V, hidden_size=H, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
        )
        base = LlamaForCausalLM(config).state_dict()
        heads = {f"medusa_head.{key}": tensor for key, tensor in official(2).items()}
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "medusa_num_heads": 2}))
        save = torch.save if pickled else save_file
        stem, ending = ("pytorch_model", "bin") if pickled else ("model", "safetensors")
        if shards:
            save(base, tmp_path / f"{stem}-1.{ending}")
            save(heads, tmp_path / f"{stem}-2.{ending}")
            where = dict.fromkeys(base, f"{stem}-1.{ending}") | dict.fromkeys(heads, f"{stem}-2.{ending}")
            (tmp_path / f"{stem}.{ending}.index.json").write_text(json.dumps({"weight_map": where}))
        else:
            save(base | heads, tmp_path / f"{stem}.{ending}")
        loaded = load_heads(tmp_path).heads
        assert loaded.num_heads == 2
        assert torch.equal(loaded.state_dict()["1.0.linear.bias"], heads["medusa_head.1.0.linear.bias"])

    def test_half_precision_stays(self, tmp_path):
        torch.save(official(dtype=torch.float16), tmp_path / "medusa_lm_head.pt")
        assert next(load_heads(tmp_path).heads.parameters()).dtype == torch.float16

    def test_legacy_pickle_format(self, tmp_path):
        torch.save(official(), tmp_path / "medusa_lm_head.pt", _use_new_zipfile_serialization=False)
        assert load_heads(tmp_path).heads.num_heads == 3


class TestStrict:
    @pytest.mark.parametrize(
        "key", ["0.0.linear.weight", "1.0.linear.bias", "2.0.linear.weight", "2.1.weight", "0.1.weight"]
    )
    def test_a_missing_key_is_named(self, tmp_path, key):
        tensors = official()
        del tensors[key]
        torch.save(tensors, tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError) as error:
            load_heads(tmp_path)
        assert key in str(error.value) or key == "0.1.weight"
        if key == "0.1.weight":  # without it the file reads as v2, where the others' matrices are too many
            assert "1.1.weight, 2.1.weight" in str(error.value)

    @pytest.mark.parametrize("key", ["0.1.bias", "0.2.linear.weight", "0.2.weight", "lm_head.weight", "x.0.weight"])
    def test_an_extra_key_is_named(self, tmp_path, key):
        torch.save(official() | {key: torch.zeros(H, H)}, tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError, match=re.escape(key)):
            load_heads(tmp_path)

    @pytest.mark.parametrize("key", ["9" * 5000 + ".0.weight", "0." * 50_000, "٣.0.linear.weight"], ids=["9", "0", "٣"])
    def test_a_key_that_no_head_could_have_is_named_in_short(self, tmp_path, key):
        save_file(official() | {key: torch.zeros(2)}, tmp_path / "medusa_lm_head.safetensors")
        with pytest.raises(UserError, match="is no part of one") as told:
            load_heads(tmp_path)
        assert len(str(told.value)) < 500

    def test_a_missing_head_is_named(self, tmp_path):
        tensors = {key: tensor for key, tensor in official().items() if not key.startswith("1.")}
        torch.save(tensors, tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError, match=r"lack 1\.\*"):
            load_heads(tmp_path)

    def test_another_shape_is_named(self, tmp_path):
        torch.save(official() | {"1.1.weight": torch.zeros(V + 1, H)}, tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError, match=r"1\.1\.weight has shape \[12, 8\] and not \[11, 8\]"):
            load_heads(tmp_path)

    def test_code_in_a_pickle_is_not_run(self, tmp_path):
        class Evil:
            def __reduce__(self):
                return (open, (str(tmp_path / "ran"), "w"))

        (tmp_path / "medusa_lm_head.pt").write_bytes(pickle.dumps({"0.0.linear.weight": Evil()}, protocol=2))
        with pytest.raises(UserError, match="hold code beside tensors"):
            load_heads(tmp_path)
        torch.save({"0.0.linear.weight": Evil()}, tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError, match="hold code beside tensors"):
            load_heads(tmp_path)
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
    @pytest.mark.parametrize("size", [0, 5, 200, -50])
    def test_a_damaged_file(self, tmp_path, name, size):
        (torch.save if name.endswith(".pt") else save_file)(official(), tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:size])
        with pytest.raises(UserError, match="is damaged"):
            load_heads(tmp_path)

    def test_no_heads(self, tmp_path):
        with pytest.raises(UserError, match="no such file"):
            load_heads(tmp_path / "nowhere")
        with pytest.raises(UserError, match="holds no Medusa heads"):
            load_heads(tmp_path)
        save_file({"model.embed_tokens.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
        with pytest.raises(UserError, match=r"model\.embed_tokens\.weight is no part of one"):
            load_heads(tmp_path)
        torch.save([1, 2], tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError, match="not a table of tensors"):
            load_heads(tmp_path)
        torch.save({5: torch.zeros(2, 2)}, tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError, match="not a table of tensors"):
            load_heads(tmp_path)

    @pytest.mark.parametrize("content", [b"root:x:0:0", b"I1\n.", b"h\x05."])
    def test_bytes_at_which_the_unpickler_stumbles(self, tmp_path, content):
        (tmp_path / "medusa_lm_head.pt").write_bytes(content)
        with pytest.raises(UserError, match=r"damaged|not a table"):
            load_heads(tmp_path)

    @pytest.mark.parametrize("kind", ["int64", "bool", "complex64", "sparse_coo"])
    def test_numbers_that_heads_cannot_compute_with(self, tmp_path, kind):
        def change(tensor):
            return tensor.to_sparse() if kind == "sparse_coo" else tensor.to(getattr(torch, kind))

        torch.save({key: change(tensor) for key, tensor in official().items()}, tmp_path / "medusa_lm_head.pt")
        with pytest.raises(UserError, match=f"is {kind}, where"):
            load_heads(tmp_path)

    def test_companions_of_another_form(self, tmp_path):
        save_file(official(), tmp_path / "medusa_lm_head.safetensors")
        (tmp_path / "config.json").write_text('{"base_model_name_or_path": 5}')
        assert load_heads(tmp_path).base is None
        (tmp_path / "medusa_tree.json").write_bytes(b"[\xff]")
        with pytest.raises(UserError, match="tree"):
            load_heads(tmp_path)

    @pytest.mark.parametrize(("said", "auto"), [(None, None), (2, 2), (3, 3), (4, None), (0, None), ("2", None)])
    def test_a_tree_with_a_number_of_nodes_that_it_has(self, tmp_path, said, auto):
        save_file(official(), tmp_path / "medusa_lm_head.safetensors")
        (tmp_path / "config.json").write_text(json.dumps({} if said is None else {"medusa_tree_nodes": said}))
        (tmp_path / "medusa_tree.json").write_text("[[0], [1], [0, 0]]")
        loaded = load_heads(tmp_path)
        assert loaded.own_tree == loaded.tree == OwnTree([[0], [1], [0, 0]], auto)
        assert len(loaded.own_tree.best()) == (auto or 3)
        told = said is not None and auto is None
        assert [re.sub(".* says", "says", notice) for notice in loaded.notices] == told * [
            f"says to use {said!r} nodes of a tree of 3; all are used."
        ]

    def test_without_a_tree_it_is_the_published_one(self, tmp_path):
        save_file(official(), tmp_path / "medusa_lm_head.safetensors")
        (tmp_path / "config.json").write_text('{"base_model_name_or_path": "HuggingFaceH4/zephyr-7b-beta"}')
        loaded = load_heads(tmp_path)
        assert loaded.tree is None
        assert loaded.own_tree == OwnTree(load_tree("zephyr_stage2"))


class TestSave:
    def test_v1_is_the_official_folder(self, tmp_path):
        heads = random_heads(4)
        save_heads(heads, tmp_path, "lmsys/vicuna-7b-v1.3")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "medusa_lm_head.pt"]
        config = json.loads((tmp_path / "config.json").read_text())
        assert config.pop("transformers_version")
        assert config == {
            "base_model_name_or_path": "lmsys/vicuna-7b-v1.3",
            "medusa_num_heads": 4,
            "medusa_num_layers": 1,
        }
        stored = torch.load(tmp_path / "medusa_lm_head.pt", weights_only=True)
        assert {key: tuple(tensor.shape) for key, tensor in stored.items()} == {
            key: shape
            for head in range(4)
            for key, shape in (
                (f"{head}.0.linear.weight", (H, H)),
                (f"{head}.0.linear.bias", (H,)),
                (f"{head}.1.weight", (V, H)),
            )
        }

    def test_v2_is_the_official_folder(self, tmp_path):
        save_heads(random_heads(2, vocab_size=None), tmp_path, "base")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "medusa_lm_head.safetensors"]
        config = json.loads((tmp_path / "config.json").read_text())
        assert config.pop("transformers_version")
        assert config == {
            "base_model_name_or_path": "base",
            "medusa_num_heads": 2,
            "medusa_num_layers": 1,
            "version": "2",
        }
        with safe_open(tmp_path / "medusa_lm_head.safetensors", "pt") as stored:
            assert {key: tuple(stored.get_slice(key).get_shape()) for key in stored.keys()} == {  # noqa: SIM118
                f"{head}.0.linear.{name}": shape
                for head in range(2)
                for name, shape in (("weight", (H, H)), ("bias", (H,)))
            }

    @pytest.mark.parametrize("vocab_size", [V, None])
    @pytest.mark.parametrize("pickled", [True, False, None])
    def test_comes_back_as_it_was(self, tmp_path, vocab_size, pickled, hidden, lm_head):
        heads = random_heads(vocab_size=vocab_size)
        tree = OwnTree([[0], [0, 1], [1]], auto=2)
        save_heads(heads, tmp_path, "base", tree, pickled)
        loaded = load_heads(tmp_path)
        assert torch.equal(loaded.heads(hidden, lm_head), heads(hidden, lm_head))
        assert (loaded.base, loaded.tree, loaded.notices) == ("base", tree, [])
        assert json.loads((tmp_path / "config.json").read_text())["medusa_tree_nodes"] == 2
