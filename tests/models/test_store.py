import gc
import json
import math
import os
import pickle
import weakref
from contextlib import ExitStack
from threading import Barrier, Thread

import pytest
import torch
from accelerate import cpu_offload
from safetensors.torch import load_file, save_file

from playground.decoding.target import check_architecture
from playground.errors import UserError
from playground.models import placement, store
from playground.models.loading import load_model, spread_map
from playground.models.medusa_heads import MedusaHeads, save_heads
from playground.models.medusa_trees import OwnTree
from playground.models.placement import Placement
from playground.models.sources import Folder
from playground.models.store import ModelStore
from tests.models.checkpoints import ARCHITECTURES, save_checkpoint

IDS = torch.tensor([[5, 17, 42, 99, 3]])


@pytest.fixture
def saved(folder, bpe):
    save_checkpoint(folder, bpe)
    return Folder(folder)


def several(tmp_path, bpe, count):
    """Folders with models of one size."""
    for at in range(count):
        save_checkpoint(tmp_path / str(at), bpe)
    return [Folder(tmp_path / str(at)) for at in range(count)]


class TestLoading:
    @pytest.mark.parametrize("name", ARCHITECTURES)
    def test_architectures_come_back_as_they_were_saved(self, folder, bpe, name):
        saved = save_checkpoint(folder, bpe, name)
        with ModelStore().lease(Folder(folder)) as loaded:
            assert type(loaded.model) is type(saved)
            assert torch.equal(loaded.model(IDS).logits, saved(IDS).logits)
            assert loaded.tokenizer.encode("The fox") == bpe.encode("The fox")
            assert loaded.target.eos_ids == {bpe.eos_token_id}
            assert loaded.parameters == saved.num_parameters()
            assert not loaded.model.training
            assert not any(p.requires_grad for p in loaded.model.parameters())
            assert loaded.model.config._attn_implementation == ("eager" if name == "gemma2" else "sdpa")

    @pytest.mark.parametrize("wanted", ["flash_attention_2", "somebody/kernel"])
    def test_a_config_chooses_no_kernel(self, folder, bpe, wanted):
        save_checkpoint(folder, bpe)
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"attn_implementation": wanted}))
        with ModelStore().lease(Folder(folder)) as loaded:
            assert loaded.model.config._attn_implementation == "sdpa"

    def test_sentencepiece_tokenizer_and_shards(self, folder, sentencepiece):
        saved = save_checkpoint(folder, sentencepiece, "mistral", max_shard_size="40KB")
        assert len(list(folder.glob("*.safetensors"))) > 1
        with ModelStore().lease(Folder(folder)) as loaded:
            assert torch.equal(loaded.model(IDS).logits, saved(IDS).logits)
            assert loaded.tokenizer.encode("the sun") == sentencepiece.encode("the sun")

    def test_pickled_weights(self, folder, bpe):
        saved = save_checkpoint(folder, bpe)
        torch.save(saved.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        with ModelStore().lease(Folder(folder)) as loaded:
            assert torch.equal(loaded.model(IDS).logits, saved(IDS).logits)

    def test_half_precision_files_become_float32_on_a_cpu(self, folder, bpe):
        saved = save_checkpoint(folder, bpe, dtype=torch.float16)
        with ModelStore().lease(Folder(folder), device="cpu") as loaded:
            assert loaded.model.dtype == torch.float32
            assert torch.equal(loaded.model.lm_head.weight, saved.lm_head.weight.float())
        with ModelStore().lease(Folder(folder), dtype="bfloat16", device="cpu") as loaded:
            assert loaded.model.dtype == torch.bfloat16

    def test_padded_vocabulary(self, folder, bpe):
        save_checkpoint(folder, bpe, vocab_size=len(bpe) + 22)
        with ModelStore().lease(Folder(folder)) as loaded:
            assert loaded.target.vocab_size == len(bpe) + 22

    def test_every_refusal_is_a_sentence_and_leaves_nothing(self, tmp_path, bpe):
        def refuse(change, says, name="llama"):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            save_checkpoint(folder, bpe, name)
            change(folder)
            models = ModelStore()
            with pytest.raises(UserError, match=says), models.lease(Folder(folder)):
                pass
            assert models.resident() == []

        def weights(folder, change):
            tensors = load_file(folder / "model.safetensors")
            change(tensors)
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

        def config(folder, **changes):
            file = folder / "config.json"
            file.write_text(json.dumps(json.loads(file.read_text()) | changes))

        key = "model.layers.1.mlp.up_proj.weight"
        refuse(lambda f: weights(f, lambda t: t.pop(key)), rf"is incomplete: .* lacks {key}")

        def swell(folder):
            weights(folder, lambda t: [t.pop(name) for name in list(t) if ".mlp." in name])
            config(folder, intermediate_size=2_000_000_000)  # some hundred gigabytes, were they taken

        refuse(swell, r"declares [\d,]+ parameters in its config.json, but its files hold")
        refuse(
            lambda f: weights(f, lambda t: t.update({key: torch.zeros(3, 3)})), "cannot be loaded from .*other shapes"
        )
        refuse(lambda f: (f / "model.safetensors").write_bytes(b"x" * 500), "damaged or cut short")
        refuse(lambda f: (f / "tokenizer.json").unlink(), "holds no tokenizer")
        refuse(lambda f: (f / "tokenizer.json").write_text("{"), "tokenizer in .* cannot be loaded")
        refuse(lambda f: (f / "tokenizer.json").rename(f / "tokenizer.model"), "pip install sentencepiece protobuf")
        refuse(lambda f: config(f, quantization_config={"quant_method": "awq", "bits": 4}), "AWQ|awq")
        refuse(lambda f: config(f, model_type="brandnew"), "brandnew")
        refuse(lambda f: config(f, vocab_size=100), "cannot be loaded|do not belong together")

        refuse(lambda f: weights(f, lambda t: t[key].fill_(math.nan)), r"gives no numbers \(NaN\) in float32")
        refuse(lambda f: config(f, vocab_size="many"), "cannot be loaded: .*vocab_size.*many")
        refuse(lambda f: config(f, num_attention_heads=0), "cannot be loaded: ZeroDivision|by zero")
        refuse(lambda f: config(f, dtype="nope"), "cannot be loaded")
        refuse(lambda f: (f / "tokenizer_config.json").write_text("[]"), "tokenizer in .* cannot be loaded")
        refuse(lambda f: (f / "tokenizer.json").write_text("null"), "tokenizer in .* cannot be loaded")

    @pytest.mark.parametrize("content", [b"", b"text, no weights", pickle.dumps(os.system, protocol=2)])
    def test_weights_that_are_damaged_or_code(self, folder, bpe, content):
        save_checkpoint(folder, bpe)
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(content)
        with (
            pytest.raises(UserError, match=r"cannot be loaded from|do not belong together") as told,
            ModelStore().lease(Folder(folder)),
        ):
            pass
        assert "weights_only" not in str(told.value), "no advice to switch the guard off"

    def test_spread_by_accelerate(self, folder, bpe):
        saved = save_checkpoint(folder, bpe)
        spread = Placement(torch.device("cpu"), torch.float32, {"cpu": 10**9})
        loaded = load_model("spread", folder, spread)
        assert torch.equal(loaded.model(IDS).logits, saved(IDS).logits)
        with pytest.raises(UserError, match="does not fit into the memory of all devices"):
            load_model("spread", folder, Placement(torch.device("cpu"), torch.float32, {"cpu": 1000}))

    @pytest.mark.parametrize("tied", [False, True])
    def test_what_goes_where(self, folder, bpe, tied):
        size = 4 * save_checkpoint(folder, bpe, num_hidden_layers=8, tie_word_embeddings=tied).num_parameters()
        assert spread_map(folder, torch.float32, {0: 2 * size, "cpu": size}) == {"": 0}
        places = spread_map(folder, torch.float32, {0: int(0.7 * size), 1: size // 5, "cpu": size})
        layers = [places[f"model.layers.{at}"] for at in range(8)]
        assert layers == sorted(layers, key=[0, 1, "cpu"].index)
        assert set(layers) == {0, 1, "cpu"}
        assert places["model.embed_tokens"] == places["lm_head"] == 0

    def test_layers_that_come_and_go_decode_alike(self, folder, bpe):
        """Offloaded layers hold no weights between passes; accelerate's hooks bring them, here on the CPU."""
        saved = save_checkpoint(folder, bpe, num_hidden_layers=4)
        loaded = load_model("offloaded", folder, Placement(torch.device("cpu"), torch.float32))
        for layer in loaded.model.model.layers[2:]:
            cpu_offload(layer, execution_device=torch.device("cpu"))
        assert next(loaded.model.model.layers[3].parameters()).is_meta
        check_architecture(loaded.target)
        assert torch.equal(loaded.model(IDS).logits, saved(IDS).logits)

    def test_code_in_a_folder_is_not_run(self, folder, bpe, tmp_path):
        save_checkpoint(folder, bpe)
        (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        file = folder / "config.json"
        auto = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "evil", "auto_map": auto}))
        with pytest.raises(UserError, match="cannot be loaded"), ModelStore().lease(Folder(folder)):
            pass
        assert not (tmp_path / "ran").exists()

    def test_progress_is_told(self, saved):
        told = []
        with ModelStore(progress=lambda message, fraction: told.append(message)).lease(saved):
            pass
        assert told == ["Loading model"]


class TestSharing:
    def test_loaded_once_and_shared(self, saved):
        models = ModelStore()
        with models.lease(saved) as first, models.lease(saved) as second:
            assert first is second
        with models.lease(saved) as third:
            assert third is first

    def test_two_threads_load_it_once(self, saved, monkeypatch):
        loads = []
        monkeypatch.setattr(store, "load_model", lambda *a, real=store.load_model: (loads.append(a), real(*a))[1])
        models, together, seen = ModelStore(), Barrier(4), []

        def visit():
            together.wait()
            with models.lease(saved) as loaded:
                seen.append(loaded)

        threads = [Thread(target=visit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(loads) == 1
        assert len(seen) == 4
        assert all(loaded is seen[0] for loaded in seen)
        assert [resident.leases for resident in models.resident()] == [0]

    def test_another_name_for_the_same_folder(self, saved):
        models = ModelStore()
        with models.lease(saved) as first, models.lease(Folder(saved.path, "other")) as second:
            assert first is second

    def test_a_folder_that_was_written_again_is_loaded_again(self, tmp_path, saved):
        models, source = ModelStore(), Folder(tmp_path / "heads")
        for num_heads in (1, 2):
            save_heads(MedusaHeads(32, num_heads), source.path, "base")
            with models.lease(saved) as base, models.lease_heads(source, base) as heads:
                assert heads.num_heads == num_heads

    def test_one_gate_for_each_device(self):
        models = ModelStore()
        cpu = torch.device("cpu")
        assert models.gate(cpu) is models.gate(torch.device("cpu"))
        assert models.gate(cpu) is not models.gate(torch.device("cuda", 0))

    def test_number_formats_are_apart(self, saved):
        models = ModelStore()
        with models.lease(saved) as full, models.lease(saved, dtype="bfloat16") as half:
            assert full is not half
        assert [(r.dtype, r.size) for r in models.resident()] == [
            ("float32", store._size(full.model) + full.target.packed_bytes),
            ("bfloat16", store._size(half.model) + half.target.packed_bytes),
        ]

    def test_a_model_is_packed_only_where_it_may_be_held_twice(self, saved):
        size = placement.estimate(store.ModelFolder(saved.path), torch.float32)
        for limit, packed in ((None, True), (2 * size, True), (2 * size - 1, False)):
            with ModelStore(limit=limit).lease(saved) as model:
                assert (model.target.packed_bytes > 0) == packed

    def test_a_failed_run_gives_its_model_back(self, saved):
        models = ModelStore()
        with pytest.raises(ZeroDivisionError), models.lease(saved):
            raise ZeroDivisionError
        (resident,) = models.resident()
        assert (resident.name, resident.kind, resident.leases) == ("model", "model", 0)


class TestEviction:
    def limit_for(self, tmp_path, bpe, count):
        sources = several(tmp_path, bpe, 3)
        models = ModelStore()
        with models.lease(sources[0]):
            pass
        needed = placement.estimate(store.ModelFolder(sources[0].path), torch.float32)
        return sources, ModelStore(limit=models.resident()[0].size * (count - 1) + needed)

    def test_least_recently_used_goes_first(self, tmp_path, bpe):
        sources, models = self.limit_for(tmp_path, bpe, 2)
        for at in (0, 1, 0, 2):
            with models.lease(sources[at]):
                pass
        assert [resident.name for resident in models.resident()] == ["0", "2"]

    def test_a_model_in_use_is_never_evicted(self, tmp_path, bpe):
        sources, models = self.limit_for(tmp_path, bpe, 2)
        with ExitStack() as held:
            first = held.enter_context(models.lease(sources[0]))
            held.enter_context(models.lease(sources[1]))
            with pytest.raises(UserError, match=r"2 needs .* GB, and of the .* are in use by other runs"):
                held.enter_context(models.lease(sources[2]))
            assert models.evict() == 0
            assert first.model(IDS).logits.isfinite().all()
        with models.lease(sources[2]):
            assert [resident.name for resident in models.resident()] == ["1", "2"]

    def test_evicted_models_leave_the_memory(self, saved):
        models = ModelStore()
        with models.lease(saved) as loaded:
            gone = weakref.ref(loaded.model)
        del loaded
        assert models.evict() > 0
        gc.collect()
        assert gone() is None
        assert models.resident() == []

    def test_full_memory_evicts_too(self, tmp_path, bpe, monkeypatch):
        sources = several(tmp_path, bpe, 2)
        models = ModelStore()
        monkeypatch.setattr(store, "free_memory", lambda device: 0 if models.resident() else 10**12)
        for source in sources:
            with models.lease(source):
                pass
        assert [resident.name for resident in models.resident()] == ["1"]


class TestHeads:
    @pytest.fixture
    def heads(self, tmp_path, bpe):
        save_heads(MedusaHeads(32, 3), tmp_path / "heads", "base", OwnTree([[0], [0, 1]]))
        return Folder(tmp_path / "heads")

    def test_on_the_base_model(self, saved, heads):
        models = ModelStore()
        with models.lease(saved, dtype="bfloat16") as base, models.lease_heads(heads, base) as leased:
            hidden = torch.randn(4, 32, dtype=torch.bfloat16)
            logits = leased(hidden)
            assert logits.shape == (3, 4, base.target.vocab_size)
            assert torch.equal(logits[2], base.target.logits(hidden))  # untrained heads change nothing
            assert leased.num_heads == 3
            assert leased.loaded.own_tree.best() == [[0], [0, 1]]
        assert [(r.name, r.kind) for r in models.resident()] == [("model", "model"), ("heads", "heads")]

    def test_heads_of_another_model(self, saved, tmp_path):
        models = ModelStore()
        save_heads(MedusaHeads(48, 2), tmp_path / "wide", "lmsys/vicuna-7b-v1.3")
        save_heads(MedusaHeads(32, 2, vocab_size=77), tmp_path / "words", "somebody")
        with models.lease(saved) as base:
            with (
                pytest.raises(UserError, match=r"size 48, but those of model have size 32.*lmsys/vicuna-7b-v1.3"),
                models.lease_heads(Folder(tmp_path / "wide"), base),
            ):
                pass
            with (
                pytest.raises(UserError, match=r"score 77 tokens, but model scores \d+"),
                models.lease_heads(Folder(tmp_path / "words"), base),
            ):
                pass
        assert [resident.kind for resident in models.resident()] == ["model"]
