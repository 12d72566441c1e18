"""Documents in a terminal: tables by rich, figures as characters. A string is text, whatever is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import StringIO
from itertools import cycle
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from attnlab.config.visible_text import visible, visible_lines
from attnlab.documents import nodes as n
from attnlab.documents.nodes import Inline, Node, Tone, muted, strong
from attnlab.documents.numbers import column_decimals
from attnlab.documents.terminal_figures import figure, forest, grid, grids
from attnlab.documents.terminal_text import LABELS, SPECIAL, STYLES, TOKENS, inline

MARGIN = 2


class PlainConsole(Console):
    """A terminal on which a string is only ever text: no markup, no pictures of :names:, and no control
    characters, which rich leaves in it."""

    def __init__(self, **options: Any):
        super().__init__(emoji=False, markup=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Signs that are longer than what they stand for count when lines are broken."""
        return super().render_str(visible_lines(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible_lines(segment.text), segment.style)

    def show(self, *shown: Node) -> None:
        """Nodes, each below the other; a title stands apart from what is above it."""
        for number, node in enumerate(shown):
            if number and _title(node):
                self.print()
            for piece in pieces(node, self):
                self.print(piece, soft_wrap=isinstance(piece, Text) and bool(piece.no_wrap))

    def stream(self, *spans: n.MarkedSpan) -> None:
        """Text that is written piece by piece: the line goes on with the next one."""
        self.print(block(n.Marked(spans), self), end="", soft_wrap=True)

    def say(self, *parts: Inline) -> None:
        """A line that is broken by the terminal alone, so that what it names can be copied."""
        self.print(inline(parts), soft_wrap=True)


def as_text(*shown: Node, width: int = 80) -> str:
    """Nodes without colours."""
    console = PlainConsole(file=StringIO(), width=width, no_color=True)
    console.show(*shown)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().rstrip("\n")


# ---------------------------------------------------------------- nodes
def pieces(node: Node, console: Console) -> Iterator[RenderableType]:
    """A node, and what has to be known to read it."""
    yield block(node, console)
    if (
        isinstance(node, n.Table | n.Figure | n.Grid | n.Grids | n.StackedBar | n.Frame | n.Pictures)
        and node.note
    ):
        yield inline(muted(node.note))


def block(node: Node, console: Console) -> RenderableType:
    match node:
        case n.Heading():
            return Text("\n").append_text(inline(strong(node.text)))
        case n.Sentence():
            return inline(muted(node.part) if node.kind == "fine" else node.part)
        case n.Notice():
            return inline(node.part)
        case n.Items():
            marks = (f"{number}. " if node.ordered else "- " for number, _ in enumerate(node.items, start=1))
            return Text("\n").join(Text(next(marks)).append_text(inline(item)) for item in node.items)
        case n.Table():
            return table(node, console)
        case n.Definitions():
            rows = [inline((strong(term), ": ", meaning)) for term, meaning in node.items]
            return _titled(node.title, Text("\n").join(rows))
        case n.Figure():
            return figure(node)
        case n.Grid():
            return grid(node)
        case n.Grids():
            return grids(node)
        case n.StackedBar():
            return table(node.table, console)
        case n.Forest():
            return table(forest(node), console)
        case n.Marked():
            return marked(node, console)
        case n.Code():
            return code(node)
        case n.Details():
            return _titled(node.summary, *_within(node.nodes, console))
        case n.Cards():
            return Group(*(card(item, console) for item in node.items))
        case n.Section():
            return _titled(node.title, *_within(node.nodes, console))
        case n.Pictures():
            return _titled(node.title, *(_picture(item, number) for number, item in enumerate(node.items, 1)))
        case n.Frame():
            return Text()


def _picture(item: n.PictureItem, number: int) -> RenderableType:
    named = inline((f"{number}. ", item.title, " ", muted(item.note)))
    return Group(named, grid(replace(item.grid, title=""))) if item.weights else named


TITLED = (n.Table, n.Figure, n.Grid, n.Grids, n.StackedBar, n.Definitions, n.Section)


def _title(node: Node) -> Inline:
    return node.title if isinstance(node, TITLED) else ""


def _titled(title: Inline, *rest: RenderableType) -> RenderableType:
    return Group(*([inline(strong(title))] if title else []), *rest)


def _within(inside: Sequence[Node], console: Console) -> Iterator[RenderableType]:
    return (piece for node in inside for piece in pieces(node, console))


def card(item: n.CardItem, console: Console) -> RenderableType:
    from rich.panel import Panel

    inside = Group(*_within(item.nodes, console))
    return Panel(inside, title=inline(strong(item.title)), title_align="left", padding=(1, 2))


def code(node: n.Code) -> RenderableType:
    if node.language == "markdown":
        from rich.markdown import Markdown  # slow to import, and every command would

        return Markdown(without_tags(node.text))
    if node.language:
        from rich.syntax import Syntax

        return Syntax(node.text, node.language, word_wrap=True)
    return Text(visible_lines(node.text))


def without_tags(markdown: str) -> str:
    """Markdown in which <START> is six letters and brackets, and no tag of HTML, which would not be shown."""
    pieces = re.split(r"(`+[^`]*`+)", markdown)
    return "".join(
        piece if place % 2 else re.sub(r"<(?=[A-Za-z/])", r"\\<", piece) for place, piece in enumerate(pieces)
    )


# ---------------------------------------------------------------- tables
def table(node: n.Table, console: Console) -> RenderableType:
    """Rules between head and rows alone; a table of names that does not fit is a list of its rows."""
    drawn = RichTable(
        caption=inline(node.caption) if node.caption else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for place, head in enumerate(node.heads):
        drawn.add_column(
            inline(head.title),
            justify="right" if node.numeric(place) else "left",
            no_wrap=head.whole,
            overflow="fold",
            ratio=head.share,
        )
    cells = cells_of(node)
    for row, line in zip(node.lines, cells, strict=True):
        if row.group:
            drawn.add_section()
            drawn.add_row(inline(strong(row.group)))
        if row.apart:
            drawn.add_section()
        drawn.add_row(*line)
    room = console.measure(drawn, options=console.options.update(width=10_000)).minimum
    if node.look == "listed" and room > console.width:
        return _listed(node, cells)
    return _titled(node.title, drawn)


def cells_of(node: n.Table) -> list[list[Text]]:
    """Every cell, with the decimals of its column."""
    places = column_decimals(node)
    return [
        [inline(cell, places=places[place], cell=True) for place, cell in enumerate(row.cells)]
        for row in node.lines
    ]


def _listed(node: n.Table, cells: Sequence[Sequence[Text]]) -> Text:
    heads = [inline(head.title).plain for head in node.heads]
    text = Text(no_wrap=True, overflow="ignore")
    for name, *rest in (list(map(_on_one_line, row)) for row in cells):
        text.append_text(name).append("\n  ")
        fields = (Text(f"{head} ").append_text(cell) for head, cell in zip(heads[1:], rest, strict=True))
        text.append_text(Text(", ").join(fields)).append("\n")
    text.rstrip()
    return text


def _on_one_line(cell: Text) -> Text:
    first, *below = cell.split("\n")
    return Text("").join([first, *(Text(" (").append_text(part).append(")") for part in below)])


# ---------------------------------------------------------------- marked text
def marked(node: n.Marked, console: Console) -> RenderableType:
    """Tokens by turns in two shades, with bars between them where there are no colours; labelled parts in
    brackets, each label in its colour."""
    if any(span.shade is not None for span in node.spans):
        return Padding(in_lines(token_pieces(node, console), console.width - 2 * MARGIN), (0, MARGIN))
    labels = dict.fromkeys(span.label for span in node.spans if span.label)
    colours = dict(zip(labels, cycle(LABELS), strict=False))
    text = Text()
    for span in node.spans:
        if span.label:
            text.append(f"[{visible(span.text)}", f"bold {colours[span.label]}")
            text.append(f" {visible(span.label)}]", colours[span.label])
        elif span.tone is None:
            text.append(visible_lines(span.text))
        else:
            bare = console.color_system is None and span.tone is Tone.CHOSEN
            shown = f"[{visible_lines(span.text)}]" if bare else visible_lines(span.text)
            text.append(shown, STYLES[span.tone])
    return text


def token_pieces(node: n.Marked, console: Console) -> Iterable[tuple[str, str]]:
    for number, span in enumerate(node.spans):
        following = node.spans[number + 1 : number + 2]
        between = span.shade is not None and bool(following) and following[0].shade is not None
        bars = "|" if console.color_system is None and between else ""
        style = STYLES[span.tone] if span.tone else "" if span.shade is None else TOKENS[span.shade % 2]
        style = SPECIAL if span.shade is not None and span.tone else style
        yield visible(span.text) + bars, style


def in_lines(pieces: Iterable[tuple[str, str]], width: int) -> Text:
    """Pieces one after another; one that does not fit begins the next line."""
    text, used = Text(), 0
    for piece, style in pieces:
        size = cell_len(piece)
        if used and used + size > width:
            text.append("\n")
            used = 0
        text.append(piece, style)
        used += size if size <= width else size % width  # one that no line holds is folded
    return text
