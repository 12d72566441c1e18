"""The report as a browser shows it."""

import pytest

from tests.browser import CHROMIUM, chromium
from tests.studies import results as made

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")

DRAWN = "[...document.querySelectorAll('[data-plot]')].every((f) => 'drawn' in f.dataset)"
TALL = 10_000


@pytest.fixture(scope="module")
def tab():
    with chromium() as page:
        yield page


def shown(tab, results, folder):
    """The whole page in one tall window, with every plot drawn."""
    tab.errors.clear()
    tab.requests.clear()
    tab.size(1280, TALL)
    tab.open(made.write(results, folder))
    tab.until(DRAWN)


def strokes(tab):
    """Colours of the lines in the plot of training curves."""
    return tab.run("[...document.querySelectorAll('#plot-curves path.js-line')].map((p) => p.style.stroke)")


def test_plots_are_drawn_and_nothing_is_fetched(tab, tmp_path):
    shown(tab, made.five_arms(), tmp_path)
    canvases = tab.run("document.querySelectorAll('.canvas').length")
    assert canvases == tab.run("document.querySelectorAll('.canvas svg.main-svg:first-child').length") == 8
    assert len(strokes(tab)) == 4
    assert tab.run("document.querySelectorAll('#plot-lengths .bars .point').length") == 20
    assert tab.run("document.querySelectorAll('#plot-attention .heatmaplayer image').length") == 3
    assert tab.errors == []
    assert [url[:5] for url in tab.requests if not url.startswith(("data:", "blob:"))] == ["file:"]


def test_the_switches_change_the_plot(tab, tmp_path):
    shown(tab, made.five_arms(seeds=2), tmp_path)
    axis = "document.querySelector('#plot-curves .xtitle').textContent"
    assert tab.run(axis) == "step"
    tab.run("document.querySelector('input[name=curves-1][value=\"2\"]').click()")
    tab.until(f"{axis} === 'seconds'")
    before = len(strokes(tab))
    tab.run("document.querySelector('#plot-curves .legend button').click()")
    tab.until(f"document.querySelectorAll('#plot-curves path.js-line').length === {before - 1}")
    top = "document.querySelector('#plot-attention .canvas').data[0].z[1][0]"
    weights = made.five_arms(seeds=2)["attention"]["arms"]["dot"]
    assert tab.run(top) == round(weights[0][0][1][0], 3)
    tab.run("document.querySelector('input[name=attention-1][value=\"3\"]').click()")
    tab.run("document.querySelector('input[name=attention-0][value=\"1\"]').click()")
    assert tab.run(top) == round(weights[1][3][1][0], 3)
    assert tab.errors == []


def test_plots_follow_the_colour_scheme(tab, tmp_path):
    shown(tab, made.two_arms(), tmp_path)
    light = strokes(tab)
    tab.size(1280, TALL, dark=True)
    tab.until(f"document.querySelector('#plot-curves path.js-line').style.stroke !== '{light[0]}'")
    assert len(set(light) | set(strokes(tab))) == 4


@pytest.mark.parametrize("kind", ["one_seed", "bare", "hostile"])
def test_the_page_never_scrolls_sideways(tab, tmp_path, kind):
    shown(tab, getattr(made, kind)(), tmp_path)
    for width in (1280, 800, 390):
        tab.size(width, TALL)
        tab.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        assert tab.run("document.documentElement.scrollWidth") <= width


def test_what_others_wrote_does_not_run(tab, tmp_path):
    shown(tab, made.hostile(), tmp_path)
    assert tab.run("typeof window.bitten") == "undefined"
    assert tab.run("document.querySelectorAll('.canvas img, .canvas b, .samples img').length") == 0
    assert tab.errors == []


def test_a_script_that_slipped_in_would_not_run_either(tab, tmp_path):
    """The page's policy holds by itself, should an escape ever be forgotten."""
    page = made.write(made.two_arms(), tmp_path)
    page.write_text(
        page.read_text(encoding="utf-8").replace("</footer>", "<script>bitten = 1</script></footer>")
    )
    tab.open(page)
    assert tab.run("typeof window.bitten") == "undefined"
    assert any("Content Security Policy" in error for error in tab.errors)
