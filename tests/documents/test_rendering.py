"""One document, four renderings: text of others acts in none of them, and a number means the same in all."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from attnlab.config.visible_text import visible
from attnlab.documents import html, markdown
from attnlab.documents.nodes import (
    Axis,
    Bars,
    Below,
    CardItem,
    Cards,
    Code,
    Definitions,
    Details,
    DocumentPage,
    Figure,
    Forest,
    ForestRow,
    Grid,
    Heading,
    Heat,
    Items,
    Line,
    Lines,
    Marked,
    MarkedSpan,
    Name,
    Notice,
    Number,
    PictureItem,
    Pictures,
    Section,
    Sentence,
    Table,
    TableColumn,
    TableRow,
    VerdictPill,
    strong,
    token_spans,
)
from attnlab.documents.notebook import fragment
from attnlab.documents.palette import ink
from attnlab.documents.scale import Scale, round_numbers
from attnlab.documents.terminal import PlainConsole, as_text

HOSTILE = "<script>x</script>\"'[red]&lt; \x1b[2J\u202e `c` **b** |"


def every_node(text):
    """One of each, holding this text wherever a text can be."""
    name = Name(text, ink(1), tags=((text, ""),))
    row = ForestRow(name, Number(0.1, 0.0, 0.2, 3), VerdictPill("better", text), text)
    chart = Lines([Line(text, [1, 2], [1.0, 2.0])], Axis(text), Axis(text))
    cells = (text, (strong(text), Code(text)), (text, Below(text)), Number(1.0, 0.5, 1.5))
    return [
        Heading(text),
        Sentence((text, strong(text), Code(text)), "prose"),
        Sentence(text, "quoted"),
        Notice(text, "invalid"),
        Items([text]),
        Table((text, TableColumn(text, text), "", ""), [TableRow(cells, group=text)], text, text, text),
        Definitions([(text, text)], title=text),
        Figure.of(text, chart, text),
        Figure.of(text, Bars([0, 1, 2], [3, 4], Axis(text), Axis(text))),
        Figure.of(text, Heat([text], [[0.5]], 1.0)),
        Grid([text], [text], [[0.5]], text, text, [[text]]),
        Forest([row], text),
        Marked([MarkedSpan(text, text), MarkedSpan(text)]),
        Marked(token_spans([text, text])),
        Code(text),
        Details(text, [Sentence(text)]),
        Cards([CardItem(text, [Sentence(text)])]),
        Pictures([PictureItem(b"png", text, text, [[0.5]]), PictureItem(b"png", text, text)], text, text),
        Section(text, [Sentence(text)]),
    ]


def letters(shown):
    """What can be read, without what renderers put between and around it."""
    return re.sub(r"[^a-z]", "", shown.lower())


@given(st.text(st.characters(exclude_categories=()), max_size=12))
def test_no_text_acts_on_a_terminal(text):
    console = PlainConsole(file=io.StringIO(), width=120, force_terminal=True, color_system="standard")
    console.show(*every_node(text))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())  # the styles that rich writes itself
    assert visible(shown.replace("\n", "")) == shown.replace("\n", "")


@pytest.mark.parametrize("render", [html.blocks, lambda nodes: fragment(DocumentPage("x", HOSTILE, nodes))])
def test_no_text_acts_on_a_page(render):
    page = str(render(every_node(HOSTILE)))
    assert "<script" not in page and "\x1b" not in page and "\u202e" not in page
    assert "&lt;script&gt;" in page and "&amp;lt;" in page
    values = re.findall(r'="([^"]*)"', page)
    assert values and not [value for value in values if "<" in value or ">" in value]


def test_no_text_acts_in_markdown():
    page = MarkdownIt("js-default").enable("table").render(markdown.blocks(every_node(HOSTILE)))
    assert "<script" not in page and "&lt;script&gt;" in page and "\x1b" not in page
    assert "<strong>b</strong>" not in page and "<code>c</code>" not in page
    (head, _, row, *_), width = (
        [line for line in markdown.block(every_node(HOSTILE)[5]).splitlines() if line.startswith("|")],
        len(re.findall(r"(?<!\\)\|", "| a | b | c | d | e |")),
    )
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in (head, row)} == {width}, "no cell adds a column"


def test_a_terminal_reads_no_markup():
    shown = as_text(Sentence(("[bold]x[/] ", strong("[red]y"))), Table(("[a]",), [["[/]"]]))
    assert "[bold]x[/] [red]y" in shown and "[a]" in shown and "[/]" in shown


def test_an_invalid_number_is_struck_everywhere():
    node = Sentence((Number(0.5, sound=False), " and ", Number(0.25)))
    assert '<s class="not-sound"><span class="hidden">invalid: </span><data value="0.5">' in html.block(node)
    assert html.block(node).count("<s ") == 1
    assert markdown.block(node).startswith("~~0.5000~~ (invalid) and 0.2500")
    assert as_text(node) == "0.5000 ✗ and 0.2500"


def test_a_stroke_never_hides_a_minus():
    for number in (Number(-0.155, sound=False), Number(0.155, form="signed", sound=False)):
        node = Sentence(number)
        assert "<s " not in html.block(node) and "✗" in html.block(node)
        assert "~~" not in markdown.block(node) and markdown.block(node).startswith("✗ ")
        assert "✗" in as_text(node)


def test_a_column_has_the_same_decimals_in_every_rendering():
    """Those that its narrowest interval bears out; a column of different measures has each its own."""
    column = [(Number(5.00812, 4.99, 5.02),), (Number(4.9, 4.0, 6.0),)]
    alike, apart = Table(("loss",), column), Table((TableColumn("loss", alike=False),), column)
    for render in (html.block, markdown.block, as_text):
        assert "4.900" in render(alike) and "5.008" in render(alike)
        assert "4.9" in render(apart) and "4.900" not in render(apart) and "5.008" in render(apart)


def test_a_forest_names_what_lies_beyond_its_scale_and_does_not_stretch_to_it():
    rows = [
        ForestRow(Name("near", ink(1)), Number(-0.1, -0.2, 0.0, 3, "signed"), VerdictPill("better")),
        ForestRow(
            Name("far", ink(2), sound=False),
            Number(-9.0, sound=False, form="signed"),
            VerdictPill("invalid"),
            sets_scale=False,
        ),
    ]
    page = html.block(Forest(rows))
    assert page.count("◀ off the scale") == 1 and page.count('class="dot"') == 1
    ticks = [float(tick.replace("−", "-")) for tick in re.findall(r'left: [\d.]+%">([+−\d.]+)<', page)]
    assert min(ticks) >= -0.25 and 0 in ticks


@pytest.mark.parametrize(("low", "high"), [(-0.013, 0.4), (0, 1), (12, 3800), (-5e-7, 2e-7)])
def test_ticks_are_few_round_numbers_inside(low, high):
    ticks = round_numbers(low, high)
    assert 3 <= len(ticks) <= 11 and all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)
    assert low > 0 or any(abs(tick) < 1e-15 for tick in ticks)
    assert Scale([1.0, None, float("nan"), 1000.0], 0, 300, log=True).ticks() == [1, 10, 100, 1000]


def test_the_same_words_are_told_in_every_rendering():
    told = [Sentence(("alpha ", strong("beta"))), Items(["gamma"]), Definitions([("delta", "epsilon")])]
    words = letters("alpha beta gamma delta epsilon")
    assert letters(as_text(*told)) == letters(markdown.blocks(told)) == words
    assert letters(re.sub("<[^>]*>", "", html.blocks(told))) == words


def test_documents_need_no_torch_and_nothing_above_them():
    import subprocess
    import sys

    modules = ("html", "markdown", "notebook", "terminal", "svg")
    code = "import sys; " + "; ".join(f"import attnlab.documents.{name}" for name in modules)
    code += "; print(sorted({'torch', 'numpy'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
