"""Whatever is in a text of others, it is shown: it never acts."""

import csv
import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from attnlab.config.visible_text import as_cell, visible, visible_json, visible_lines
from attnlab.documents import grids, svg
from attnlab.documents.html import inline
from attnlab.documents.markdown import plain_text
from attnlab.documents.nodes import Grid, Line, Lines, emphasised, scale_of, strong
from attnlab.documents.terminal import PlainConsole

TURNING = {"RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI", "PDF", "PDI"}
MARKS = {"\u061c", "\u200e", "\u200f"}
ACTING = ("Cc", "Cs", "Zl", "Zp")


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_acts_in_what_is_visible(text):
    assert not [c for c in visible(text) if unicodedata.category(c) in ACTING]
    left = [c for c in visible_lines(text) if unicodedata.category(c) in ACTING]
    assert set(left) <= {"\n", "\t"}
    assert not {unicodedata.bidirectional(c) for c in visible(text)} & TURNING
    assert not MARKS & {*visible(text + "\u061c\u200e\u200f")}


@given(st.text(st.characters(exclude_categories=())))
def test_json_means_the_same_and_acts_on_nothing(text):
    shown = visible_json(json.dumps([text], ensure_ascii=False))
    assert json.loads(shown) == [text]
    assert visible(shown) == shown


@given(*[st.text("[]/\\:redx \ufdd0\n", max_size=9)] * 2)
def test_a_string_on_a_terminal_is_only_text(one, other):
    """With markup, "[red" of one text would be closed by a bracket of the next."""
    console = PlainConsole(file=io.StringIO(), width=200)
    console.print(f"{one} and {other}]", soft_wrap=True)
    console.say(strong(one), " and ", other, "]")
    lines = visible_lines(f"{one} and {other}]\n"), visible(f"{one} and {other}]") + "\n"
    assert console.file.getvalue() == "".join(lines)


def test_nothing_of_a_line_is_lost_where_signs_are_longer():
    console = PlainConsole(file=io.StringIO(), width=30)
    console.print("ten words " * 2 + "\u202e" * 4 + " end", highlight=False)
    assert "".join(console.file.getvalue().split()) == "tenwordstenwords" + "\\u202e" * 4 + "end"


def test_drawings_show_names_as_text():
    curves = svg.curves(Lines([Line("\u200f<i>", [0, 1], [0, 1])]))
    named = Grid(["<b>\u202e"], ["\x1b"], [[1.0]])
    drawn = grids.shades(named, scale_of(named)) + curves
    assert visible(str(drawn)) == drawn and "<b>" not in drawn and "<i>" not in drawn


def test_text_of_people_stays_as_it_is():
    for text in ("naïve café", "你好 🙂", "עברית", "مرحبا", "a\u200db", "x = [1, 2]"):
        assert visible(text) == text


@pytest.mark.parametrize("shown", ["\x1b[2Jwiped", "\x1b]0;title\x07", "\x9b31m", "\u202egnp.exe", "a\rb"])
def test_a_terminal_is_not_moved_coloured_or_turned(shown):
    console = PlainConsole(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    table = Table("name")
    table.add_row(Text(shown))
    console.print(table)
    console.print(shown, markup=False, highlight=False)
    said = console.file.getvalue()
    assert "\x1b[2J" not in said and "\x1b]" not in said and "\u202e" not in said and "\x9b" not in said
    assert said.count("\n") == 6


@pytest.mark.parametrize(
    "text",
    ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\r=1", "- 2+3", "- A(1)", "- x|' /C'!A1"],
)
def test_a_cell_is_never_a_formula(text):
    assert as_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", ["-1", "+0.5", "-inf", "1e-3", "- a line of a dialogue", "a=b", 5, -2.0, None]
)
def test_numbers_and_prose_are_written_as_they_are(value):
    assert as_cell(value) == value


def test_markdown_shows_text_as_text():
    hostile = "<b>x</b> [a](javascript:x) `c` | d &lt; https://example.org # ~~e~~ $f$"
    shown = plain_text(hostile)
    for acting in ("<b>", "](", "https:", "&lt; "):
        assert acting not in shown.replace("\\]\\(", "")[: len(shown)] or acting == "]("
    assert "\\[a\\](" in shown and "&amp;lt;" in shown and "\\|" in shown


def test_a_card_s_emphasis_is_all_that_acts_in_it():
    assert inline(emphasised("*a* <b>\u202e\x1b")) == "<em>a</em> &lt;b&gt;\\u202e␛"


@pytest.mark.parametrize("text", ["- a", "+ b", "1. c", "12) d", "---", "-"])
def test_markdown_makes_no_list_or_rule_of_a_text(text):
    from markdown_it import MarkdownIt

    assert MarkdownIt().render(plain_text(text)) == f"<p>{text}</p>\n"


def test_a_study_s_sheet_quotes_what_would_be_computed():
    from attnlab.studies.report.sheets import _sheet

    rows = [{"arm": "dot", "reason": "=HYPERLINK(1)\u202e\x1b", "value": -0.5}]
    (row,) = csv.DictReader(io.StringIO(_sheet(["arm", "reason", "value"], rows)))
    assert row == {"arm": "dot", "reason": "'=HYPERLINK(1)\\u202e␛", "value": "-0.5"}
