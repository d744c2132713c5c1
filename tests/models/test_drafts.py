"""Which drafts fit is told from folders alone, and as the loaded models would tell it."""

import pytest
import torch

from playground.errors import UserError
from playground.models import loading
from playground.models.catalog import load_catalog
from playground.models.drafts import Candidate, find_drafts, rank_drafts
from playground.models.loading import load_model
from playground.models.pairing import check_pair
from playground.models.placement import Placement
from tests.models.checkpoints import save_checkpoint

CPU = Placement(torch.device("cpu"), torch.float32)


@pytest.fixture
def save(tmp_path):
    def make(name, tokenizer, architecture="llama", **changes):
        save_checkpoint(tmp_path / name, tokenizer, architecture, **changes)
        return Candidate(name, tmp_path / name)

    return make


@pytest.fixture
def big(save, bpe):
    return save("big", bpe, num_hidden_layers=6, intermediate_size=512, hidden_size=64)


@pytest.mark.parametrize("architecture", ["llama", "llama-tied", "qwen3", "gemma3", "gpt2"])
def test_a_folder_says_what_the_loaded_model_says(save, bpe, big, architecture):
    candidate = save("one", bpe, architecture)
    loaded = load_model("one", candidate.path, CPU)
    for fact in ("parameters", "context_length", "eos_ids", "tokens"):
        assert getattr(candidate, fact) == getattr(loaded, fact), fact
    assert check_pair(big, candidate) == check_pair(big, loaded)


def test_drafts_by_cost_without_loading_any(save, big, bpe, train_byte_level, monkeypatch):
    small = save("small", bpe, num_hidden_layers=1, hidden_size=16)
    middle = save("middle", bpe, num_hidden_layers=2, hidden_size=32, max_position_embeddings=32)
    other = save("other", train_byte_level(["completely other words here and there"] * 8))
    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", None)
    ranked = rank_drafts(big, [middle, other, small])
    assert [draft.name for draft in ranked] == ["small", "middle"]
    assert ranked[0].cost == pytest.approx(small.parameters / big.parameters)
    assert ranked[0].findings == ()
    assert any("middle reads 32 tokens, big 64" in finding.text for finding in ranked[1].findings)


def test_a_damaged_candidate_is_left_out_and_a_damaged_target_is_an_error(save, big, bpe):
    damaged = save("damaged", bpe, num_hidden_layers=1)
    weights = damaged.path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    assert rank_drafts(big, [damaged]) == []
    with pytest.raises(UserError, match="damaged or cut short"):
        rank_drafts(Candidate("damaged", damaged.path), [big])


def test_the_catalog_s_models_on_this_machine(big, save, bpe, tmp_path):
    save("small", bpe, num_hidden_layers=1, hidden_size=16)
    table = "".join(f'{name} = {{ folder = "{name}", licence = "mit" }}\n' for name in ("big", "small", "away"))
    (tmp_path / "catalog.toml").write_text(f"[models]\n{table}")
    catalog = load_catalog(tmp_path / "catalog.toml", tmp_path)
    assert [draft.name for draft in find_drafts(catalog, "big")] == ["small"]
    with pytest.raises(UserError, match="away is not on this machine"):
        find_drafts(catalog, "away")
    with pytest.raises(UserError, match="cannot be opened from here"):
        find_drafts(catalog, str(big.path), allow_local=False)
