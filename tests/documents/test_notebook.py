"""What a result shows of itself: short, and with other people's text as text."""

import pytest

from attnlab.documents.nodes import DocumentPage, Table
from attnlab.documents.notebook import SelfShowing
from attnlab.documents.palette import SURFACES
from tests.browser import CHROMIUM, chromium, without_axe
from tests.explain.pages import PAGES
from tests.look.notebooks import in_notebook


class Held(SelfShowing, dict):
    def document(self):
        rows = [(key, value) for key, value in self.items()]
        return DocumentPage("held", "A <b>title</b> [bold]", [Table(("name", "value"), rows)])


def test_a_result_is_its_table_and_stays_what_it_is():
    held = Held({"<script>x</script>": 1, "[red]": 2})
    assert held["[red]"] == 2 and isinstance(held, dict)
    assert "[red]" in repr(held) and "[bold]" in repr(held)
    page = held._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page and "<b>title" not in page
    assert all(len(line) <= 80 for line in repr(held).splitlines())


@pytest.fixture(scope="module")
def tab():
    with chromium() as page:
        yield page


def opened(tab, folder, result, ground, *, dark):
    """A result in a notebook of this ground, on a system that is dark or not."""
    file = folder / "notebook.html"
    file.write_text(in_notebook(result._repr_html_(), ground), encoding="utf-8")
    tab.size(960, 1200, dark=dark)
    tab.open(file)


def colours(tab, selector):
    return tab.run(f"[...document.querySelectorAll('{selector}')].map((e) => getComputedStyle(e)"
                   ".backgroundColor)")  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_a_result_brings_its_own_ground_whatever_the_notebooks_is(tab, tmp_path, dark):
    """A notebook's own stripes would cut through it: dark rows below dark ink."""
    opened(tab, tmp_path, Held({"a": 1, "b": 2, "c": 3}), "light" if dark else "dark", dark=dark)
    page = SURFACES["page"][dark]
    channels = ", ".join(str(int(page[i : i + 2], 16)) for i in (1, 3, 5))
    assert colours(tab, ".attnlab") == [f"rgb({channels})"]
    assert {*colours(tab, ".attnlab tr"), *colours(tab, ".attnlab table")} == {"rgba(0, 0, 0, 0)"}
    assert tab.run("getComputedStyle(document.querySelector('.attnlab')).padding") == "16px"


@pytest.mark.skipif(bool(without_axe()), reason=without_axe())
@pytest.mark.parametrize("name", ["scores", "heads", "query"])
@pytest.mark.parametrize(("ground", "dark"), [("dark", False), ("light", True)])
def test_every_text_of_a_result_can_be_read_in_a_notebook(tab, tmp_path, name, ground, dark):
    """4.5:1 among the rest of what axe-core asks."""
    opened(tab, tmp_path, PAGES[name](), ground, dark=dark)
    assert tab.barriers() == []


@pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")
def test_the_frame_of_a_page_is_as_high_as_its_content(tab, tmp_path):
    opened(tab, tmp_path, PAGES["attention"](), "dark", dark=True)
    high = "document.querySelector('iframe').getBoundingClientRect().height"
    tab.until(f"{high} !== {PAGES['attention']().page_parts()[0].height}")
    wide = tab.run(high)
    assert 1000 < wide < 3000
    tab.size(430, 1200, dark=True)
    tab.until(f"{high} > {wide} + 100")  # what no longer fits side by side stands below
