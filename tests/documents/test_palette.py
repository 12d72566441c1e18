"""The palette: contrast by WCAG's formula, and one ramp of weights, on paper and on black."""

import itertools
import re
from pathlib import Path

import pytest

import attnlab
from attnlab.documents import palette
from attnlab.documents.palette import BASELINE, COLOURS, INVALID, JUDGEMENT, STOPS, SURFACES, WEIGHTS

SOURCE = Path(attnlab.__file__).parent


def luminance(colour):
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_lines_can_be_read(dark):
    grounds = [SURFACES[name][dark] for name in ("page", "raised", "sunken")]
    texts = [SURFACES[name][dark] for name in ("ink", "muted", "link")]
    assert min(itertools.starmap(contrast, itertools.product(texts, grounds))) >= 4.5
    for name in ("good", "bad", "wrong", "caution"):
        assert contrast(JUDGEMENT[name][dark], JUDGEMENT[f"{name}-soft"][dark]) >= 4.5
        assert contrast(JUDGEMENT[name][dark], SURFACES["page"][dark]) >= 4.5
    assert contrast(SURFACES["muted"][dark], JUDGEMENT["plain-soft"][dark]) >= 4.5
    lines = [pair[dark] for pair in (BASELINE, *COLOURS, INVALID, SURFACES["axis"])]
    assert min(contrast(line, SURFACES["page"][dark]) for line in lines) >= 3


@pytest.mark.parametrize("dark", [False, True])
def test_the_ramp_has_its_colours_at_its_stops_and_is_linear_between_them(dark):
    assert [palette.shade_on(stop, dark=dark) for stop in STOPS] == [pair[dark] for pair in WEIGHTS]
    low, middle, high = (
        [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        for colour in (WEIGHTS[1][dark], palette.shade_on((STOPS[1] + 1) / 2, dark=dark), WEIGHTS[2][dark])
    )
    halves = [(one + other) / 2 for one, other in zip(low, high, strict=True)]
    assert middle == pytest.approx(halves, abs=0.5)
    steps = [luminance(palette.shade_on(share / 50, dark=dark)) for share in range(51)]
    assert steps == sorted(steps, reverse=not dark)  # more weight is always farther from the page


def test_a_sign_is_a_hue_and_zero_is_the_ground():
    below, zero, above = (palette.shade_on(share, dark=False, signed=True) for share in (-1, 0, 1))
    assert (below, zero, above) == (COLOURS[1][0], WEIGHTS[0][0], COLOURS[0][0])
    assert palette.shade(-0.5, signed=True) == "color-mix(in srgb, var(--below) 50%, var(--heat-0))"


def test_arms_past_the_last_colour_are_dashed_and_invalid_ones_dotted():
    inks = [palette.ink(place) for place in range(len(COLOURS) + 2)]
    assert len({(one.colour, one.dash) for one in inks}) == len(inks)
    assert [one.dash for one in inks] == ["solid"] * (len(COLOURS) + 1) + ["dash"]
    assert palette.ink(3, sound=False).dash == "dot"
    assert "dot" not in palette.DASHES


def test_no_colour_and_no_size_stands_outside_the_palette_and_its_eight_sizes():
    """A ninth size or a second blue begins with one line of a style sheet."""
    templates = [
        *SOURCE.rglob("templates/*.css"),
        *SOURCE.rglob("templates/*.html"),
        *SOURCE.rglob("templates/*.js"),
    ]
    assert len(templates) > 8
    for file in templates:
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3,4}\b(?=[;, )])", text), file.name
        sizes = re.findall(
            r"font(?:-size)?:[^;{}]*?(\d*\.?\d+(?:rem|em|px|pt))", text.split("@media print")[0]
        )
        assert {*sizes} <= {"12px", "13px"}, f"{file.name}: {sizes}"
