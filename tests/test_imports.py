"""Imports point one way: `ui, cli -> training -> analysis -> run -> methods -> drafters, models -> decoding`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [
    {"errors"},
    {"decoding"},
    {"files", "jobs", "options", "settings"},
    {"drafters", "models", "remote"},
    {"methods"},
    {"lanes"},
    {"run"},
    {"analysis", "deploy", "lessons"},
    {"training"},
    {"ui"},
    {"cli"},
    {"__main__"},
]
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
FILES = sorted((ROOT / "playground").rglob("*.py"))
DECODING_MAY_IMPORT = {"torch", "transformers", "playground", *sys.stdlib_module_names}


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a file imports, wherever in the file it does so."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{name.name}" for name in node.names)


def room(module: str) -> str | None:
    """The room of a module of ours, or the file beside the rooms; None for the package itself and for others."""
    parts = module.split(".")
    return parts[1] if parts[0] == "playground" and len(parts) > 1 and parts[1] in RANK else None


def test_every_room_has_its_place() -> None:
    rooms = {module_of(path).split(".")[1] for path in FILES if module_of(path) != "playground"}
    assert rooms <= set(RANK), "a new room needs a place in the order"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_arrow_points_back(path: Path) -> None:
    own = room(module_of(path))
    if own is None:
        assert not [name for name in imports(path) if room(name)], "the package itself imports nothing of its rooms"
        return
    for name in imports(path):
        other = room(name)
        assert other is None or RANK[other] <= RANK[own], f"{own} imports {name}"
        beside = other is not None and other != own and RANK[other] == RANK[own]
        assert not beside, f"{own} imports {name}, a room of the same rank"


@pytest.mark.parametrize("path", [path for path in FILES if room(module_of(path)) == "decoding"], ids=module_of)
def test_decoding_stands_alone(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] in DECODING_MAY_IMPORT, f"decoding imports {name}"
        assert room(name) in (None, "decoding", "errors")


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = {module_of(path): path for path in FILES}
    arrows = {module: {name for name in imports(path) if name in known} - {module} for module, path in known.items()}
    done: set[str] = set()

    def visit(module: str, trail: list[str]) -> None:
        assert module not in trail, " -> ".join([*trail, module])
        if module not in done:
            for other in arrows[module]:
                if not module.startswith(other + "."):  # a module may name its own package
                    visit(other, [*trail, module])
            done.add(module)

    for module in known:
        visit(module, [])


def test_the_walker_sees_imports_wherever_they_hide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    folder = tmp_path / "playground" / "decoding"
    folder.mkdir(parents=True)
    (folder / "x.py").write_text(
        "import playground.ui.page\n"
        "from playground import cli\n"
        "from .. import run\n"
        "from ..models import text\n"
        "from . import tree\n"
        "def f():\n    from playground.methods import METHODS\n"
        "if TYPE_CHECKING:\n    import gradio as g\n"
    )
    found = set(imports(folder / "x.py"))
    wanted = ["playground.ui.page", "playground.cli", "playground.run", "playground.models.text", "gradio"]
    assert found >= {*wanted, "playground.decoding.tree", "playground.methods"}
