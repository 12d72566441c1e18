"""Numbers as text, and colours that can be seen."""

import math

import pytest

from attnlab.documents.nodes import Number
from attnlab.documents.numbers import anything, beside, decimals, duration, estimate_of, fixed, short, spread
from attnlab.documents.palette import BASELINE, COLOURS


def test_numbers_have_the_digits_that_their_interval_bears_out():
    assert decimals([Number(5.00812, 4.99, 5.02)]) == 3
    assert decimals([Number(401.043)]) == 1
    alone = estimate_of({"value": 5.0081, "low": math.nan, "high": None, "n": 1})
    assert beside(alone, 2) == ["interval unknown (one seed)", "n\xa0=\xa01"]
    assert beside(Number(5.0081, 4.99, 5.02, 3)) == ["4.990\xa0to\xa05.020", "n\xa0=\xa03"]
    assert beside(estimate_of({"value": 5.0})) == [], "one run by itself has no interval to miss"
    assert fixed(-0.0001, 2) == "0.00" and fixed(-1234.5, 1) == "−1,234.5" and fixed(math.inf, 1) == "∞"
    told = [duration(s) for s in (3.21, 59.7, 189.4, 3729, -75)]
    assert told == ["3.2 s", "1 min 00 s", "3 min 09 s", "1 h 02 min", "−1 min 15 s"]
    assert spread([1.0, math.nan, 3.0]) == Number(2.0, 1.0, 3.0, 2, without_interval="interval unknown")
    digits = [short(value) for value in (0.12345, 12345.6, 12345, None, -0.5)]
    assert digits == ["0.123", "12,346", "12,345", "–", "−0.5"]
    assert [short(value) for value in (1e-6, -2.5e-7, 1e9, 1000.0)] == ["10⁻⁶", "−2.5×10⁻⁷", "10⁹", "1,000"]
    assert anything({"kind": "group", "groups": 4}) == "group(groups = 4)"


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("scheme", "page"), [(0, "#fcfbf9"), (1, "#141519")])
def test_arms_can_be_seen_on_their_page(scheme, page):
    """3:1 is what WCAG asks of lines and marks."""
    for pair in (BASELINE, *COLOURS):
        light, dark = sorted((luminance(pair[scheme]), luminance(page)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, pair[scheme]
