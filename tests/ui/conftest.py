"""Node, which runs the browser code outside a browser; and what the log was told."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from playground.ui.components import BROWSER
from playground.ui.logs import LOG, JsonLines

RunModule = Callable[[str, object], object]


@pytest.fixture(scope="session")
def node() -> str:
    """The path of Node."""
    found = shutil.which("node")
    if found is None:
        pytest.fail("These tests need Node 18 or newer: install it (Debian: apt-get install nodejs).")
    return found


@pytest.fixture(scope="session")
def in_node(node: str, tmp_path_factory: pytest.TempPathFactory) -> RunModule:
    """Run a module body against the browser code: `given` is its input, what it assigns to `result` comes back."""

    def run(body: str, given: object) -> object:
        folder: Path = tmp_path_factory.mktemp("node")
        (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
        imports = "\n".join(
            f"import * as {path.stem} from {json.dumps(path.as_uri())};" for path in sorted(BROWSER.glob("*.js"))
        )
        script = f"""{imports}
import {{ readFileSync }} from 'node:fs';
const given = JSON.parse(readFileSync({json.dumps(str(folder / "given.json"))}, 'utf8'));
let result;
{body}
process.stdout.write(JSON.stringify(result));
"""
        (folder / "script.mjs").write_text(script, encoding="utf-8")
        done = subprocess.run([node, folder / "script.mjs"], capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def told() -> Iterator[list[dict[str, object]]]:
    """What the log is told, line by line, as its handler would write it."""
    lines: list[dict[str, object]] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(JsonLines().format(record)))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield lines
    LOG.removeHandler(handler)
    LOG.setLevel(logging.NOTSET)
