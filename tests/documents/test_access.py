"""Nothing serious for axe-core on any page: wide and light, narrow and dark."""

from pathlib import Path

import pytest

from attnlab.documents.html import page
from tests.browser import chromium, without_axe
from tests.evaluation.test_result_nodes import result as evaluation
from tests.explain.pages import PAGES
from tests.look.notebooks import findings

pytestmark = pytest.mark.skipif(bool(without_axe()), reason=without_axe())

LOOKS = [(1280, False), (390, True)]

DRAWN = "document.getElementById('measured')?.textContent !== ''"
"""A page of maps unpacks them after it has loaded, and then says what it measured."""


@pytest.fixture(scope="module")
def tab():
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize("name", [*PAGES, "evaluation", "checks"])
def test_a_page_has_no_barrier(tab, name, tmp_path):
    file = Path(tmp_path / "page.html")
    others = {"evaluation": evaluation, "checks": findings}
    file.write_text(page((PAGES | others)[name]().document()), encoding="utf-8")
    for width, dark in LOOKS:
        tab.size(width, 1200, dark=dark)
        tab.open(file)
        tab.until(DRAWN)
        assert tab.barriers() == [], (width, dark)


def test_maps_that_cannot_be_unpacked_are_no_barrier(tab, tmp_path):
    file = Path(tmp_path / "page.html")
    file.write_text(page(PAGES["attention"]().document()), encoding="utf-8")
    absent = tab.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")
    try:
        tab.open(file)
        tab.until(DRAWN)
        assert "could not be drawn" in tab.run("document.getElementById('measured').textContent")
        assert tab.barriers() == []
    finally:
        tab.call("Page.removeScriptToEvaluateOnNewDocument", **absent)
