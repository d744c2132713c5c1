"""The training commands as a user types them, on a model of a few kilobytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from playground.cli import app
from playground.errors import UserError
from playground.models.medusa_heads import load_heads
from playground.models.sources import parse_source
from playground.models.store import ModelStore

QUICK = ("--texts", "60", "--new-tokens", "16", "--steps", "12", "--batch", "64")


@pytest.fixture(scope="module")
def target(talkative: Path) -> Path:
    return talkative


def run(*arguments: object) -> tuple[str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


@pytest.mark.parametrize("source", ["own", "--code", "--tasks", "file"])
def test_heads_from_every_kind_of_prompt(target: Path, tmp_path: Path, source: str) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "def f"}\n{"turns": ["words of", "more"]}\n' * 30)
    chosen = {
        "own": (),
        "--code": ("--code",),
        "--tasks": ("--tasks", "--candidates", 100),
        "file": ("--prompts", prompts),
    }[source]
    out = tmp_path / "heads"
    told, progress = run("train-medusa", "--target", target, "--out", out, *QUICK, "--nodes", 6, *chosen)
    assert "mean acceptance length" in told
    assert "step 12/12" in progress
    loaded = load_heads(out)
    assert loaded.base == "tiny"
    assert loaded.tree is not None
    assert len(loaded.tree.best()) == 6


def test_the_number_of_nodes_that_is_fastest_here_is_told(target: Path, tmp_path: Path) -> None:
    told, _ = run("train-medusa", "--target", target, "--out", tmp_path / "heads", *QUICK, "--nodes", "auto")
    assert "tokens in a pass: ms" in told
    tree = load_heads(tmp_path / "heads").tree
    assert tree is not None
    assert f"tree: {len(tree.best())} nodes, the fastest on this machine" in told


def test_a_base_that_learned_with_its_heads_loads(target: Path, tmp_path: Path) -> None:
    out = tmp_path / "both"
    run("train-medusa", "--target", target, "--out", out, *QUICK, "--nodes", 4, "--together", 6)
    with (
        ModelStore().lease(parse_source(str(out))) as model,
        ModelStore().lease_heads(parse_source(str(out)), model) as h,
    ):
        assert h.num_heads == 4


def test_a_draft_loads_beside_its_target(target: Path, tmp_path: Path) -> None:
    out = tmp_path / "draft"
    told, _ = run("train-draft", "--target", target, "--out", out, *QUICK, "--row", 16)
    assert "sum(min(p, q))" in told
    with ModelStore().lease(parse_source(str(out))) as model:
        assert model.target.num_layers == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--nodes", "many"), "--nodes"),
        (("--temperatures", "hot"), "--temperatures"),
        (("--code", "--books", "."), "one of"),
        (("--steps", "1"), "--steps"),
        (("--prompts", "nowhere.jsonl"), "cannot be read"),
        (("--books", "."), "children.txt.xz"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(target: Path, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run("train-medusa", "--target", target, "--out", tmp_path / "heads", *options)
