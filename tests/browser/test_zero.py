"""The header on ZeroGPU: it says what is missing, and the rooms that would need more than one run are not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from playground.models.store import ModelStore
from playground.ui import page as page_module
from tests.browser.conftest import OpenPage
from tests.serving import served

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The page as it is built there; its catalog closed, but no GPU to lend and no model loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "ON_ZERO_GPU", True)
        patch.setattr(page_module, "preload", lambda store, catalog: catalog.only(["built-in"]))
        page = page_module.build_page(ModelStore(limit=0), allow_local=False)
    with served(page) as address:
        yield address


@pytest.mark.parametrize(
    ("language", "said"), [("en", "borrows a GPU"), ("pt-BR", "emprestada uma GPU"), ("zh-CN", "单次运行借用")]
)
def test_the_header_says_what_is_missing_in_every_language(open_page: OpenPage, language: str, said: str) -> None:
    page = open_page(query=f"lang={language}&room=train")
    assert said in page.inner_text("#header [data-part=lent]")
    rooms = page.locator("#header [data-part=rooms] button").evaluate_all("all => all.map((one) => one.dataset.room)")
    assert rooms == ["race", "step", "lessons", "advise"]
    assert page.evaluate("document.body.dataset.room") == "race"
