import os

import pytest
from huggingface_hub import constants

from playground.errors import UserError
from playground.models import hub as hub_module
from playground.models.hub import Hub
from tests.models.hub_server import COMMIT, FakeHub, serve

WEIGHTS = os.urandom(1_000_000)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    fake = FakeHub(
        {
            "owner/model": {
                "config.json": b"{}",
                "tokenizer.json": b"{ }",
                "model.safetensors": WEIGHTS,
                "pytorch_model.bin": b"the same again",
                "onnx/model.safetensors": b"not at the top",
                "consolidated.safetensors": b"and again",
                "modeling_evil.py": b"raise SystemExit",
            },
            "owner/heads": {"config.json": b"{}", "medusa_lm_head.pt": b"pickled"},
            "owner/empty": {"README.md": b"hello"},
        }
    )
    with serve(fake) as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100_000)
        yield fake


def test_fetches_what_is_needed_and_finds_it_afterwards(hub):
    told = []
    source = Hub("owner/model")
    assert source.find() is None
    folder = source.fetch(lambda message, fraction: told.append((message, fraction)))
    assert folder.name == COMMIT
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert told[-1] == ("Downloading owner/model", 1.0)
    hub.repos.clear()
    assert source.find() == source.fetch() == folder


def test_pickled_heads_are_fetched_where_there_is_nothing_else(hub):
    folder = Hub("owner/heads").fetch()
    assert (folder / "medusa_lm_head.pt").read_bytes() == b"pickled"
    assert Hub("owner/heads").find() == folder


def test_a_broken_download_resumes(hub):
    hub.cut_after = 350_000
    folder = Hub("owner/model").fetch()
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert ("model.safetensors", "bytes=300000-") in hub.downloads


def test_half_a_download_is_not_found(hub, monkeypatch):
    folder = Hub("owner/model").fetch()
    (folder / "model.safetensors").unlink()
    assert Hub("owner/model").find() is None


def test_sentences(hub, monkeypatch):
    with pytest.raises(UserError, match="hub has no model owner/missing"):
        Hub("owner/missing").fetch()
    with pytest.raises(UserError, match="owner/model has no revision 'v9'"):
        Hub("owner/model", "v9").fetch()
    with pytest.raises(UserError, match="owner/empty holds no weights"):
        Hub("owner/empty").fetch()
    hub.gated.add("owner/model")
    with pytest.raises(UserError, match="licence to be accepted"):
        Hub("owner/model").fetch()
    hub.gated.clear()
    monkeypatch.setattr(hub_module, "check_room", lambda folder, size: (_ for _ in ()).throw(UserError(f"full {size}")))
    with pytest.raises(UserError, match="full 1000005"):
        Hub("owner/model").fetch()


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"hub cannot be reached, and owner/model@v1 is not .* on this machine"):
        Hub("owner/model", "v1").fetch()


@pytest.mark.parametrize(
    "repo", ["", "a/b/c", "../b", "a/..", "a b/c", "a/b--c", "-a/b", "a/", "a/b-", "a./b", "a/b.git", "a" * 97]
)
def test_ids_that_cannot_be(repo):
    with pytest.raises(UserError, match="no hub id"):
        Hub(repo)


@pytest.mark.parametrize("revision", ["", "../main", "a b", "/etc", "a//b"])
def test_revisions_that_cannot_be(revision):
    with pytest.raises(UserError, match="no revision"):
        Hub("owner/model", revision)
