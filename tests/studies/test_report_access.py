"""Study reports for people who do not see them or use no mouse; and one look, as a browser draws it."""

import pytest

from attnlab.documents import palette
from tests.browser import CHROMIUM, chromium, without_axe
from tests.studies import results as made

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")

DRAWN = "[...document.querySelectorAll('[data-plot]')].every((f) => 'drawn' in f.dataset)"
TALL = 80_000  # higher than any page with whatever fonts: figures are drawn when they come in sight
SIZES = {38, 28, 20, 18, 16, 15, 13, 12}
PHONE = SIZES - {38, 28} | {25}


@pytest.fixture(scope="module")
def tab():
    with chromium() as page:
        yield page


def shown(tab, results, folder, *, width=1280, dark=False):
    """The whole page with every plot drawn and everything opened."""
    tab.size(width, TALL, dark=dark)
    tab.open(made.write(results, folder))
    tab.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    tab.until(DRAWN)


@pytest.mark.skipif(bool(without_axe()), reason=without_axe())
@pytest.mark.parametrize(("kind", "width", "dark"), [("five_arms", 1280, False), ("one_seed", 390, True)])
def test_axe_finds_no_barrier(tab, tmp_path, kind, width, dark):
    shown(tab, getattr(made, kind)(), tmp_path, width=width, dark=dark)
    assert tab.barriers() == []


@pytest.mark.parametrize(("width", "allowed"), [(1280, SIZES), (390, PHONE)])
def test_a_report_has_eight_type_sizes_and_three_families(tab, tmp_path, width, allowed):
    shown(tab, made.five_arms(seeds=2), tmp_path, width=width)
    fonts = tab.run("""[...document.querySelectorAll('body *')]
        .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
        .filter((e) => !e.closest('script, style, noscript'))
        .map((e) => [getComputedStyle(e).fontSize, getComputedStyle(e).fontFamily.split(',')[0]])""")
    assert {float(size.removesuffix("px")) for size, _ in fonts} <= allowed
    assert {family.strip('"') for _, family in fonts} == {"system-ui", "Charter", "ui-monospace"}


@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_mixes_the_ramp_as_a_terminal_does(tab, tmp_path, dark):
    shown(tab, made.two_arms(seeds=2), tmp_path, dark=dark)
    for share in (0.0, 0.2, 0.35, 0.8, 1.0):
        for signed in (False, True):
            mixed = tab.run(f"""(() => {{
                const probe = document.body.appendChild(document.createElement('i'));
                probe.style.color = '{palette.shade(share, signed=signed)}';
                const context = document.createElement('canvas').getContext('2d');
                context.fillStyle = getComputedStyle(probe).color;
                context.fillRect(0, 0, 1, 1);
                probe.remove();
                return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
            }})()""")
            other = palette.shade_on(share, dark=dark, signed=signed)
            assert mixed == pytest.approx([int(other[i : i + 2], 16) for i in (1, 3, 5)], abs=1)


def test_a_table_is_sorted_by_its_heads_with_the_keyboard(tab, tmp_path):
    shown(tab, made.five_arms(), tmp_path)
    head = "document.querySelectorAll('table.sortable')[0].tHead.rows[0].cells[1]"
    values = (
        "[...document.querySelectorAll('table.sortable')[0].tBodies[0].rows]"
        ".map((r) => r.cells[1].querySelector('data')).map((d) => d && Number(d.value))"
    )
    tab.run(f"{head}.querySelector('button').focus()")
    tab.press("Tab")
    tab.run(f"{head}.querySelector('button').focus()")
    tab.press("Enter")
    up = tab.run(values)
    assert tab.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert up[-1] is None and up[:-1] == sorted(up[:-1]), "an arm without a number stays last"
    tab.press("Enter")
    down = tab.run(values)
    assert tab.run(f"{head}.getAttribute('aria-sort')") == "descending"
    assert down == [*reversed(up[:-1]), None]
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is seen"
    assert tab.run(f"{head}.querySelector('button') === document.activeElement"), "and stays where it was"


def test_every_picture_has_a_sentence_of_its_own(tab, tmp_path):
    shown(tab, made.five_arms(), tmp_path)
    named = tab.run("[...document.querySelectorAll('.canvas')].map((c) => c.getAttribute('aria-label'))")
    assert len(named) == len(set(named)) == 8 and all(named)
    maps = tab.run(
        "[...document.querySelectorAll('#plot-attention .canvas')].map((c) => c.getAttribute('aria-label'))"
    )
    assert [one.partition(": ")[0] for one in maps] == ["dot", "additive", "zero (invalid)"]
    tab.run("document.querySelector('input[name=curves-1][value=\"2\"]').click()")
    tab.until(
        "document.querySelector('#plot-curves .canvas').getAttribute('aria-label').includes('by seconds')"
    )
    tables = tab.run("[...document.querySelectorAll('table')].map((t) => t.caption?.textContent || '')")
    assert all(tables), "every table has a caption"


def test_text_in_figures_is_never_smaller_than_twelve_pixels(tab, tmp_path):
    shown(tab, made.many_arms(), tmp_path, width=390)
    texts = tab.run("""[...document.querySelectorAll('svg text')]
        .filter((text) => text.getBoundingClientRect().width)
        .map((text) => [getComputedStyle(text).fontSize, Math.hypot(text.getCTM().a, text.getCTM().b)])""")
    assert texts and {size for size, _ in texts} == {"12px"}
    assert [scale for _, scale in texts] == pytest.approx([1.0] * len(texts)), "drawn at its size"
