"""Numbers as text, and colours that can be seen."""

import math

import pytest

from attnlab.documents.palette import BASELINE, COLOURS
from attnlab.studies.report.number_text import anything, decimals, duration, estimated, fixed, spread


def test_numbers_have_the_digits_that_their_interval_bears_out():
    assert decimals([{"value": 5.00812, "low": 4.99, "high": 5.02}]) == 3
    assert decimals([{"value": 401.043}]) == 1
    alone = estimated({"value": 5.0081, "low": math.nan, "high": None, "n": 1}, 2)
    assert alone.beside == ["interval unknown (one seed)", "n\xa0=\xa01"]
    assert fixed(-0.0001, 2) == "0.00" and fixed(-1234.5, 1) == "−1,234.5" and fixed(math.inf, 1) == "∞"
    assert [duration(s) for s in (3.21, 189.4, 3729)] == ["3.2 s", "3:09", "1:02:09"]
    assert spread([1.0, math.nan, 3.0]) == {"value": 2.0, "low": 1.0, "high": 3.0, "n": 2}
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
