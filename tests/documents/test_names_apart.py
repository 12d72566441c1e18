"""Names of lines that lie close together do not cover each other."""

import re
from itertools import pairwise

import pytest

from attnlab.documents.nodes import Axis, Level, Line, Lines
from attnlab.documents.plotly_figures import APART, HEIGHT, drawn
from attnlab.documents.scale import set_apart
from attnlab.documents.svg import curves


def test_places_keep_their_order_and_move_only_as_far_as_they_must():
    assert set_apart([0, 1, 40], 15) == [0, 15, 40]
    assert set_apart([40, 1, 0], 15) == [40, 15, 0]
    assert set_apart([0, 14, 16], 15) == [0, 15, 30]
    assert set_apart([], 15) == []


LEVELS = [Level("majority", 0.50), Level("unigram", 0.505), Level("chance", 0.1)]


def chart(*, log=False):
    return Lines([Line("run", [1, 2], [0.2, 1.0])], Axis("step"), Axis("loss", log=log), levels=LEVELS)


@pytest.mark.parametrize("log", [False, True])
def test_names_of_levels_stand_apart_where_a_script_draws_them(log):
    notes = drawn(chart(log=log))["layout"]["annotations"]
    low, high = (-1.0, 0.0) if log else (0.1, 1.0)
    heights = sorted(HEIGHT * (note["y"] - low) / (high - low) + note.get("yshift", 0) for note in notes)
    assert len(notes) == 3 and all(b - a > APART - 2 for a, b in pairwise(heights)), heights
    assert "yshift" not in notes[0] and "yshift" not in notes[2], "only the upper one of two is moved"


def test_names_of_levels_stand_apart_in_a_drawing():
    desk = str(curves(chart())).partition("on-phone")[0]
    heights = {
        name: float(y) for y, name in re.findall(r'y="([\d.]+)"[^>]*>(majority|unigram|chance)<', desk)
    }
    assert heights["majority"] - heights["unigram"] >= 15, "higher up is less"
    assert heights["chance"] - heights["majority"] >= 15
