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
        tab.until("document.readyState === 'complete'")
        assert tab.barriers() == [], (width, dark)
