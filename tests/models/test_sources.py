from pathlib import Path

import pytest

from playground.errors import UserError
from playground.models.cache import quiet
from playground.models.gguf import Gguf
from playground.models.hub import Hub
from playground.models.sources import FirstOf, Folder, parse_source


class Broken:
    name = "broken"

    def find(self):
        return None

    def fetch(self, progress=quiet):
        raise UserError("It is broken.")


def test_what_a_spec_means(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    assert parse_source("owner/name") == Hub("owner/name")
    assert parse_source(" owner/name@v1.2 ") == Hub("owner/name", "v1.2")
    assert parse_source("gpt2") == Hub("gpt2")
    assert parse_source("models/mine") == Folder(Path("models/mine"))
    assert parse_source(str(tmp_path)) == Folder(tmp_path)
    assert parse_source("./later") == Folder(Path("later"))
    assert parse_source("x/model.Q4_K_M.gguf") == Gguf(Path("x/model.Q4_K_M.gguf"))
    assert parse_source("x/medusa_lm_head.pt") == Folder(Path("x/medusa_lm_head.pt"))
    assert parse_source("~/m") == Folder(Path.home() / "m")


@pytest.mark.parametrize("spec", ["", "a/b/c", "owner/name@../x", "http://x/y", "a b"])
def test_nonsense_is_refused(spec):
    with pytest.raises(UserError):
        parse_source(spec)


def test_strangers_cannot_open_local_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert parse_source("owner/name", allow_local=False) == Hub("owner/name")
    for spec in ("/etc", "./x", "~/x", "../x", "m.gguf", "h.pt", "C:\\m"):
        with pytest.raises(UserError, match="cannot be opened from here"):
            parse_source(spec, allow_local=False)


def test_a_missing_folder_is_a_sentence(tmp_path):
    assert Folder(tmp_path / "no").find() is None
    with pytest.raises(UserError, match="There is no folder"):
        Folder(tmp_path / "no").fetch()


def test_the_first_place_that_has_it(tmp_path):
    assert FirstOf((Broken(), Folder(tmp_path))).fetch() == tmp_path
    with pytest.raises(UserError, match=r"It is broken. There is no folder"):
        FirstOf((Broken(), Folder(tmp_path / "no"))).fetch()


@pytest.mark.parametrize(
    "spec",
    ["~nobody-of-that-name/model", "x" * 5000, "./" + "x" * 5000, "\0", "./\0", "~\ud800", "./\ud800", "0¹", "a@¹"],
)
@pytest.mark.parametrize("allow_local", [True, False])
def test_paths_that_cannot_be_are_sentences(spec, allow_local):
    with pytest.raises(UserError):
        parse_source(spec, allow_local).fetch()
