"""Nothing serious for axe-core on any page: wide and light, narrow and dark."""

from pathlib import Path

import pytest

from tests.browser import chromium, without_axe
from tests.explain.pages import PAGES

pytestmark = pytest.mark.skipif(bool(without_axe()), reason=without_axe())

LOOKS = [(1280, False), (390, True)]


@pytest.fixture(scope="module")
def tab():
    with chromium() as page:
        yield page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_an_explanation_has_no_barrier(tab, name, tmp_path):
    file = Path(tmp_path / "page.html")
    PAGES[name]().save(file)
    for width, dark in LOOKS:
        tab.size(width, 1200, dark=dark)
        tab.open(file)
        tab.until("document.readyState === 'complete'")
        assert tab.barriers() == [], (width, dark)
