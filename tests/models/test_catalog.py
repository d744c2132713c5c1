import tomllib

import pytest

from playground.errors import UserError
from playground.models.catalog import CATALOG, HARDWARE, PROJECT, load_catalog
from playground.models.gguf import Gguf
from playground.models.hub import Hub
from playground.models.sources import FirstOf, Folder
from playground.models.wheel import SMOLLM2


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def test_every_kind_of_machine_has_families(catalog):
    assert {family.hardware for family in catalog.families.values()} == set(HARDWARE)


def test_what_was_run_here_is_said_truthfully(catalog):
    assert {family.id for family in catalog.families.values() if family.run_here} == {"built-in", "smollm2-135m"}


def test_entries_say_what_they_are(catalog):
    for entry in (*catalog.models.values(), *catalog.heads.values()):
        assert entry.licence
        assert entry.parameters or isinstance(entry.source, Folder)
    for entry in catalog.heads.values():
        assert entry.model in catalog.models


def test_every_table_is_used_and_no_key_is_misspelt(catalog):
    tables = tomllib.loads(CATALOG.read_text())
    used = {entry.id for family in catalog.families.values() for entry in family.entries}
    assert used == catalog.models.keys() | catalog.heads.keys()
    entry = {"folder", "hub", "wheel", "revision", "licence", "parameters", "gated", "run_here", "model"}
    family = {"title", "about", "hardware", "target", "draft", "heads", "hybrid_draft", "hybrid_heads"}
    assert {key for kind in ("models", "heads") for table in tables[kind].values() for key in table} <= entry
    assert {key for table in tables["families"].values() for key in table} <= family


def test_heads_belong_to_their_target(catalog):
    for family in catalog.families.values():
        if family.heads:
            assert family.heads.model == family.target.id
        if family.hybrid_heads:
            assert family.hybrid_draft
            assert family.hybrid_heads.model == family.hybrid_draft.id


def test_drafts_are_smaller_and_hardware_is_enough(catalog):
    limits = {"laptop": 8e9, "16 GB GPU": 14e9, "24-48 GB GPU": 44e9}
    for family in catalog.families.values():
        if family.draft and family.target.parameters:
            assert family.draft.parameters < family.target.parameters
        assert family.memory(2) < limits.get(family.hardware, 1e12)
    assert catalog.families["llama-2-70b"].memory(2) == pytest.approx(151e9, rel=0.01)


def test_what_a_family_provides(catalog):
    assert catalog.families["built-in"].provides == {"draft", "heads", "draft_heads"}
    assert catalog.families["vicuna-33b"].provides == {"draft", "heads", "draft_heads"}
    assert catalog.families["smollm2-135m"].provides == {"heads"}
    assert catalog.families["qwen3-8b"].provides == {"draft"}


def test_names_and_everything_else(catalog):
    assert catalog.source("built-in") == Folder(PROJECT / "assets/models/target", "built-in-target")
    assert catalog.source("built-in-draft").name == "built-in-draft"
    smol = catalog.source("smollm2-135m")
    assert smol == FirstOf((Hub("HuggingFaceTB/SmolLM2-135M-Instruct"), SMOLLM2), "smollm2-135m")
    assert catalog.source("me/mine@v2") == Hub("me/mine", "v2")
    assert isinstance(catalog.source("x.gguf"), Gguf)
    with pytest.raises(UserError):
        catalog.source("/etc", allow_local=False)


def test_partners_fill_what_is_not_given(catalog):
    entries = {**catalog.models, **catalog.heads}

    def source(name):
        return entries[name].source

    parts = catalog.parts("built-in")
    assert (parts.target, parts.draft, parts.heads) == tuple(
        map(source, ("built-in-target", "built-in-draft", "built-in-medusa"))
    )
    assert parts.draft_heads is None
    hybrid = catalog.parts("built-in", hybrid=True)
    assert (hybrid.draft, hybrid.draft_heads) == (source("built-in-small-target"), source("built-in-small-medusa"))
    own = catalog.parts("built-in", draft="me/mine", hybrid=True)
    assert (own.draft, own.draft_heads) == (Hub("me/mine"), None)
    lone = catalog.parts("me/mine", heads="me/heads")
    assert (lone.target, lone.draft, lone.heads, lone.draft_heads) == (Hub("me/mine"), None, Hub("me/heads"), None)


def test_a_wrong_catalog_is_a_sentence(tmp_path):
    file = tmp_path / "catalog.toml"
    file.write_text('[models.a]\nlicence = "mit"\n')
    with pytest.raises(UserError, match="where 'a' comes from"):
        load_catalog(file)
    file.write_text('[families.f]\ntitle = "t"\nabout = "a"\nhardware = "laptop"\ntarget = "no"\n')
    with pytest.raises(UserError, match="family 'f' names or lacks 'no'"):
        load_catalog(file)


def test_a_closed_catalog_knows_its_families_and_nothing_else(catalog):
    closed = catalog.only(["built-in"])
    assert list(closed.families) == ["built-in"]
    assert set(closed.models) == {"built-in-target", "built-in-draft", "built-in-small-target"}
    assert set(closed.heads) == {"built-in-medusa", "built-in-small-medusa"}
    assert closed.parts("built-in", hybrid=True) == catalog.parts("built-in", hybrid=True)
    for other in ("smollm2-135m", "owner/name", "/etc"):
        with pytest.raises(UserError, match=f"'{other}' is not in memory here, and nothing else is loaded"):
            closed.source(other)
