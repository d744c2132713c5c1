"""CONTRIBUTING.md keeps its word: the method in it is one file and one entry, and holds to what every method must."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from playground import methods
from playground.decoding.trace import read_trace
from playground.methods import METHODS, Method
from playground.models.store import ModelStore
from playground.run import LaneSpec, RunSpec, get_kind, open_run
from playground.ui.components import describe
from playground.ui.form import DEFAULTS
from playground.ui.link import read_link, write_link
from tests import test_methods
from tests.world import table_world

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"
INVARIANTS = [
    test
    for name, test in vars(test_methods).items()
    if name.startswith("test_") and "method" in inspect.signature(test).parameters
]


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Method:
    """The method of the guide, registered."""
    drafter, entry = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names = dict(vars(methods))
    exec(drafter, names)
    method = eval(entry, names)
    assert isinstance(method, Method)
    monkeypatch.setitem(METHODS, method.id, method)
    return method


@pytest.mark.parametrize("sampling", test_methods.SAMPLINGS.values(), ids=test_methods.SAMPLINGS.keys())
@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda test: test.__name__.removeprefix("test_"))
def test_what_holds_for_every_method_holds_for_it(
    echo: Method, invariant: Callable[..., None], sampling: object
) -> None:
    given = {"method": echo, "models": table_world(seed=1), "sampling": sampling, "length": 5}
    invariant(**{name: given[name] for name in inspect.signature(invariant).parameters})


def test_it_runs_on_real_models(echo: Method) -> None:
    lanes = (LaneSpec("autoregressive"), LaneSpec("echo", {"back": "2", "k": 2}))
    spec = RunSpec("The sea, the sea, the sea!", lanes, max_new_tokens=24)
    with open_run(spec, ModelStore()) as run:
        list(run)
    plain, guessed = run.summary(0), run.summary(1)
    assert guessed.output_token_ids == plain.output_token_ids
    assert guessed.num_draft_tokens > 0
    assert run.trace.lanes[1].lossless == "ids"
    file = io.StringIO()
    run.trace.write(file)
    assert read_trace(file.getvalue().splitlines()) == run.trace


def test_page_and_links_know_it_by_its_entry(echo: Method) -> None:
    assert [setting["name"] for setting in describe(get_kind("echo"))["settings"]] == ["k", "back", "batch"]
    lane = {"method": "echo", "settings": echo.check({"back": 7})}
    query = write_link(list((DEFAULTS | {"lane": [lane]}).values()))
    assert "lane=echo;back=7" in query
    values = read_link([tuple(pair.split("=", 1)) for pair in query[1:].split("&")])
    assert values is not None
    assert values[1] == [lane]
