"""The terminal's look: the palette's colours on any ground, work of unknown length, and runs as they go."""

import io
import itertools
from types import SimpleNamespace

import pytest

from attnlab.documents.live_terminal import work_progress
from attnlab.documents.nodes import Bar, Forest, ForestRow, Name, Number, Sentence, VerdictPill
from attnlab.documents.palette import COLOURS, JUDGEMENT, SIGNED, SURFACES, on_any_ground
from attnlab.documents.terminal import PlainConsole, as_text
from attnlab.documents.terminal_text import STYLES
from attnlab.studies.live_view import TableView
from tests.documents.test_numbers import luminance


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    "pair", [*JUDGEMENT.values(), *SURFACES.values(), *COLOURS, *SIGNED.values()], ids=str
)
def test_every_colour_is_read_on_white_and_on_black(pair):
    """Which of the two a terminal has is not known."""
    assert min(contrast(on_any_ground(pair), ground) for ground in ("#ffffff", "#000000")) >= 4.5


def test_tones_are_the_palettes_and_no_name_of_a_terminals_own_colours():
    named = " ".join(STYLES.values())
    assert not {"red", "green", "cyan", "magenta", "yellow", "bright_black", "dim"} & {*named.split()}
    assert on_any_ground(JUDGEMENT["wrong"]) in named and on_any_ground(JUDGEMENT["good"]) in named


def drawn(total, completed=0.0):
    console = PlainConsole(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    progress = work_progress(console)
    progress.add_task("Scoring …", total=total, completed=completed)
    console.print(progress.get_renderable())
    return console.file.getvalue()


def test_work_of_unknown_length_is_a_word_and_known_work_a_bar():
    assert drawn(None).strip() == "Scoring …"
    assert "━" in drawn(1.0, 0.5)


def test_a_study_as_it_runs_is_a_table_like_any_other(tmp_path):
    states = ("running", "finished", "failed", "waiting")
    jobs = [
        SimpleNamespace(
            arm="dot",
            seed=seed,
            status=state,
            shown=state,
            folder=tmp_path / str(seed),
            name="",
            result=None,
        )
        for seed, state in enumerate(states)
    ]
    shown = []
    screen = SimpleNamespace(console=SimpleNamespace(height=40), show=shown.append)
    TableView(screen)(jobs)
    text = as_text(*shown)
    assert "2 of 4 runs" in text and "│" not in text
    for mark, state in zip("◐✓✗○", states, strict=True):
        assert f"{mark} {state}" in text
    assert "████████████ 100%" in text


def test_a_bar_below_zero_has_the_length_of_its_size():
    assert as_text(Sentence(Bar(-0.5, room=1 / 3))) == as_text(Sentence(Bar(0.5, room=1 / 3))) == "████"


def test_a_forest_has_each_interval_on_one_axis():
    rows = [
        ForestRow(Name("near"), Number(0.25, -0.05, 0.55, form="signed"), VerdictPill("inconclusive")),
        ForestRow(Name("far"), Number(1.0, 0.7, 1.3, form="signed"), VerdictPill("worse")),
    ]
    near, far = (line for line in as_text(Forest(rows)).splitlines() if "●" in line)
    zero = far.index("│")
    assert near[zero] == "┼", "its interval crosses zero"
    places = [near.index("●") - zero, far.index("●") - zero]
    assert places[1] == pytest.approx(4 * places[0], abs=3)
    whiskers = [
        len(list(itertools.takewhile(lambda c: c in "─┼", line.partition("●")[2]))) for line in (near, far)
    ]
    assert abs(whiskers[0] - whiskers[1]) <= 1, "as long as their intervals"
