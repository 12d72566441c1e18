"""Grids: one scale for those read together, one ramp, a sign without colours; forbidden is not 0."""

import re

import pytest

from attnlab.documents import html
from attnlab.documents.grid_wording import grid_sentence
from attnlab.documents.nodes import Axis, Figure, Grid, Grids, Heat, Line, Lines, StackedBar
from attnlab.documents.palette import shade
from attnlab.documents.terminal import as_text
from attnlab.documents.terminal_figures import shade as characters
from tests.explain.pages import PAGES

NAMES = ["a", "b"]
LARGE = Grid(NAMES, NAMES, [[1.94, 0.5], [0.0, -0.97]], title="large")
SMALL = Grid(NAMES, NAMES, [[0.605, 0.5], [-0.5, 0.1]], title="small")


def cells(page):
    """(what a cell says, its colour) of each cell."""
    return re.findall(r'<rect[^>]*?(?:style="fill:([^"]*)")?><title>([^<]*)</title>', page)


def test_grids_that_are_read_together_share_a_scale_and_a_key():
    """A full cell was 1.94 in one and 0.605 in the next."""
    page = str(html.block(Grids([LARGE, SMALL])))
    colours = {said: colour for colour, said in cells(page)}
    assert len({colour for colour, said in cells(page) if said == "a, b: 0.5"}) == 1
    assert colours["a, a: 1.94"] == shade(1.0, signed=True)
    assert colours["a, a: 0.605"] == shade(0.605 / 1.94, signed=True)
    assert page.count("ramp-numbers") == 1 and "<span>−1.94</span><span>0</span><span>1.94</span>" in page
    shown = as_text(Grids([LARGE, SMALL]))
    assert shown.count("██ = 1.94") == 1 and "0.605" not in shown
    first, second = (part.splitlines()[1].split()[1:] for part in re.split("large|small", shown)[1:])
    assert first[-1][-2:] == second[-1][-2:], "0.5 has the same shade in both"


def test_the_sign_survives_without_colour():
    page = str(html.block(LARGE))
    assert len(re.findall(">−<", page)) == 1, "the one number below zero carries its minus"
    assert len(re.findall(">−<", str(html.block(SMALL)))) == 1
    assert characters(0.9, 1.0) != characters(-0.9, 1.0)
    assert {characters(value, 1.0) for value in (0.2, 0.5, 0.8, 1.0)}.isdisjoint(
        characters(-value, 1.0) for value in (0.2, 0.5, 0.8, 1.0)
    )


def test_a_pair_that_is_not_allowed_is_not_zero():
    grid = Grid(NAMES, NAMES, [[1.0, None], [0.0, 1.0]])
    page = str(html.block(grid))
    assert page.count('class="diagonal"') == page.count('class="forbidden"') == 1
    assert "a, b: not allowed" in page and "b, a: 0" in page and "forbidden-swatch" in page
    lines = as_text(grid).splitlines()
    assert lines[1] == "a ██╱ " or lines[1] == "a ██╱"
    assert lines[2] == "b   ██" and "╱ not allowed" in lines[3]


@pytest.mark.parametrize("render", [lambda node: str(html.block(node)), as_text])
def test_shades_that_nobody_would_see_are_a_sentence(render):
    nothing = Grid(NAMES, NAMES, [[0.0, 0.0], [0.0, 0.0]], title="none")
    rounding = Grid(NAMES, NAMES, [[3e-17, 0.0], [0.0, 0.0]], title="rounding")
    assert "Every number is 0." in render(nothing)
    assert "at most 3×10⁻¹⁷ in size" in " ".join(render(Grids([LARGE, rounding])).split())
    assert "<rect" not in render(nothing) and "█" not in render(nothing)


def test_each_grid_has_its_own_words_and_its_numbers_as_a_table():
    assert grid_sentence(LARGE) == "large: 2 rows against 2 columns; the largest is 1.94 at a, a."
    page = str(html.block(Grids([LARGE, SMALL])))
    labels = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert len(labels) == 2 == len({*labels})
    assert page.count("<summary>Numbers</summary>") == 2 and page.count('<th scope="row"') == 4


def test_a_stack_has_its_parts_shares_as_widths_and_in_words():
    page = str(html.block(StackedBar([("a", 30.0, "30 B"), ("b", 10.0, "10 B")], "Memory")))
    assert re.findall(r"width: ([\d.]+)%", page) == ["75.000", "25.000"]
    assert "a: 30 B (75.0%)" in page and "Memory" in page


def values_of(chart):
    return [y for line in chart.lines for y in line.y if y is not None]


@pytest.mark.parametrize("name", PAGES)
def test_headlines_are_short_and_no_figure_magnifies_nothing(name):
    """Reach plotted 47.5 to 48.5 around a constant, superposition 16 decades around a numerical zero."""
    document = PAGES[name]().document()
    assert len(document.headline) <= 160, document.headline
    for figure in html.figures_in(document.nodes):
        for chart in (chart for view in figure.views.values() for chart in view):
            assert isinstance(chart, Lines | Heat)
            if isinstance(chart, Lines):
                values = values_of(chart)
                assert min(values) != max(values)
                assert not chart.y.log or min(values) > 1e-12, "below it lies rounding"


def test_an_axis_from_zero_begins_there_in_every_rendering():
    chart = Lines([Line("reach", [1.0, 2.0], [40.0, 48.0])], Axis("layers"), Axis("tokens", from_zero=True))
    for shown in (str(html.block(Figure.of("", chart))), as_text(Figure.of("", chart))):
        assert re.search(r"(?:>| )0(?:<| ┤)", shown), shown
