"""The attention page as a browser shows it: by keyboard, with the ramp of all pages, and in its own words."""

import pytest

from attnlab.documents.palette import SURFACES, shade_on
from tests.browser import CHROMIUM, chromium
from tests.explain.pages import WORDS, attention

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")

FOCUSED = "document.activeElement"
PIXEL = """((q, k) => {
  const canvas = document.querySelector('#large'), side = Math.max(4, Math.min(34, Math.floor(
    (document.querySelector('#map').clientWidth - 84) / 13)));
  const at = (n) => Math.round((84 + n * side + 4) * (window.devicePixelRatio || 1));
  return [...canvas.getContext('2d').getImageData(at(k), at(q), 1, 1).data].slice(0, 3);
})"""


@pytest.fixture(scope="module")
def maps():
    return attention()


@pytest.fixture(scope="module")
def tab(maps, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "maps.html"
    maps.save(file)
    with chromium() as page:
        page.size(1200, 1600)
        page.open(file)
        page.until("document.querySelectorAll('.small-row canvas').length === 12")
        yield page


def chosen(tab):
    return tab.run("document.querySelector('.small-row [aria-pressed=true]').dataset.head")


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


@pytest.mark.parametrize("dark", [False, True])
def test_a_weight_has_the_colour_of_the_one_ramp_and_a_forbidden_pair_has_not(tab, maps, dark):
    """Linear in the weight, up to the weight that the key names; not its root, not an opacity."""
    tab.size(1200, 1600, dark=dark)
    page = list(rgb(SURFACES["page"][dark]))
    tab.until(f"String({PIXEL}(0, 5)) === '{','.join(map(str, page))}'")  # the scheme has changed
    head = maps.chosen
    weights = maps.layers[head.layer].weights[head.name.number]
    assert tab.run("document.querySelector('#top').textContent") == "1"
    for query, key in [(1, 0), (3, 1), (4, 3), (8, 3), (12, 5), (6, 4)]:
        expected = rgb(shade_on(float(weights[query, key]), dark=dark))
        got = tab.run(f"{PIXEL}({query}, {key})")
        assert max(abs(a - b) for a, b in zip(got, expected, strict=True)) <= 3, (query, key)
    zero = tab.run(f"{PIXEL}(6, 4)")
    assert float(weights[6, 4]) < 0.01 and zero != page


def test_arrow_keys_read_the_map_and_enter_shows_a_query_alone(tab, maps):
    tab.run("document.querySelector('#map').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.press(key)
    head = maps.chosen
    weight = float(maps.layers[head.layer].weights[head.name.number][1, 1])
    assert tab.run("document.querySelector('#read').textContent") == f"1 cat attends to 1 cat: {weight:.2f}"
    tab.press("ArrowRight")
    assert tab.run("document.querySelector('#read').textContent") == "1 cat may not attend to 2 saw"
    every = tab.run("document.querySelectorAll('#lines line').length")
    tab.press("Enter")
    assert 0 < tab.run("document.querySelectorAll('#lines line').length") < every
    tab.press("Enter")
    assert tab.run(f"{FOCUSED}.id") == "map"


def test_a_token_is_a_button_and_keeps_the_focus_when_its_lines_are_drawn(tab):
    tab.run("document.querySelectorAll('#lines [role=button]')[3].focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUSED}.getAttribute('aria-pressed')") == "true"
    assert tab.run(f"{FOCUSED}.getAttribute('aria-label')").startswith(f"3 {WORDS[3]}")
    tab.press("ArrowDown")
    tab.press(" ")
    assert tab.run(f"{FOCUSED}.textContent") == f"4 {WORDS[4]}"
    tab.press(" ")
    assert tab.run("document.querySelectorAll('#lines [aria-pressed=true]').length") == 0


def test_heads_are_chosen_from_maps_and_table_by_keyboard_and_the_focus_stays(tab):
    tab.run("document.querySelector('.small-row [data-head=\"2,1\"]').focus()")
    tab.press("Enter")
    assert chosen(tab) == "2,1" and tab.run(f"{FOCUSED}.dataset.head") == "2,1"
    first = tab.run("document.querySelector('#large').getAttribute('aria-label')")
    tab.run("document.querySelector('#listed tr[data-head=\"0,3\"] button').focus()")
    tab.press("Enter")
    assert chosen(tab) == "0,3" and tab.run(f"{FOCUSED}.closest('tr').dataset.head") == "0,3"
    second = tab.run("document.querySelector('#large').getAttribute('aria-label')")
    assert "layer 2, head 1" in first and "layer 0, head 3" in second, "each map in its own words"
    tab.run("(document.querySelector('#full').focus(), document.querySelector('#full').value = '0.1',"
            "document.querySelector('#full').dispatchEvent(new Event('change')))")  # fmt: skip
    assert tab.run(f"{FOCUSED}.id") == "full"
    assert tab.run("document.querySelector('#top').textContent") == "≥ 0.1"


def test_the_order_of_the_table_is_told(tab):
    sorts = "[...document.querySelectorAll('#columns th')].map((cell) => cell.getAttribute('aria-sort'))"
    assert tab.run(sorts) == [None] * 5 + ["descending"]
    tab.run("document.querySelectorAll('#columns button')[2].focus()")
    tab.press("Enter")
    assert tab.run(sorts) == [None, None, "ascending", None, None, None]
    assert tab.run(f"{FOCUSED}.textContent") == "kind"
    assert [error for error in tab.errors if "readback" not in error] == []  # the tests' own looking
