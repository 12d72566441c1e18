"""Documents in a terminal: tables by rich, figures as characters. A string is text, whatever is in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
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
from attnlab.documents.nodes import SIGNS, Inline, Node, Number, Tone, muted, parts_of, strong
from attnlab.documents.numbers import beside, column_decimals, fixed, short, value_text
from attnlab.documents.palette import COLOURS, JUDGEMENT, SURFACES, on_any_ground, shade_on
from attnlab.documents.scale import Scale

MUTED, LINK, BAR_COLOUR = map(on_any_ground, (SURFACES["muted"], SURFACES["link"], JUDGEMENT["bar"]))
STYLES = {
    Tone.STRONG: "bold",
    Tone.ITALIC: "italic",
    Tone.MUTED: MUTED,
    Tone.NAME: LINK,
    Tone.CHOSEN: f"bold {LINK}",
    Tone.GOOD: on_any_ground(JUDGEMENT["good"]),
    Tone.WARNING: on_any_ground(JUDGEMENT["caution"]),
    Tone.WRONG: f"bold {on_any_ground(JUDGEMENT['wrong'])}",
    Tone.STRUCK: f"strike {MUTED}",
}
VERDICTS = {"better": STYLES[Tone.GOOD], "worse": on_any_ground(JUDGEMENT["bad"])}
VERDICTS |= dict.fromkeys(("invalid", "failed"), STYLES[Tone.WRONG])
LABELS = tuple(map(on_any_ground, COLOURS))
TOKENS = tuple(f"{SURFACES['ink'][0]} on {shade_on(share, dark=False)}" for share in (0.14, 0.32))
SPECIAL = f"bold {LABELS[3]}"
SHADES, BELOW_ZERO = " ░▒▓█", " ╌─═≡"
"""Amounts, and amounts below zero: strokes, so that the sign is seen without colours too."""
STEPS = "▁▂▃▄▅▆▇█"
MARKS = "●▲■◆○△□◇"
BAR, SPARK, HIGH, WIDE = 24, 10, 14, 56
"""Columns of a bar and of a sparkline; lines and columns of a figure."""
MOST_COLUMNS = 60
"""Of a grid that fits a terminal."""
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


# ---------------------------------------------------------------- sentences
def inline(part: Inline, *, places: int | None = None, cell: bool = False) -> Text:
    """Parts of a sentence; in a cell, what belongs to a number stands below it."""
    text = Text()
    for piece in parts_of(part):
        _append(text, piece, places, cell)
    return text


def _append(text: Text, part: n.Part, places: int | None, cell: bool) -> None:
    match part:
        case str():
            text.append(visible(part))
        case None | int() | float():
            text.append(short(part))
        case Number():
            _append_number(text, part, places, cell)
        case n.Name():
            tags = "".join(f" ({word})" for word, _ in part.tags)
            text.append(visible(part.text) + tags, "" if part.sound else STYLES[Tone.WRONG])
        case n.Code():
            text.append(visible(part.text), LINK)
        case n.Emphasis():
            inner = inline(part.part, places=places, cell=cell)
            inner.stylize(STYLES[part.tone])
            text.append_text(inner)
        case n.Below():
            text.append("\n" if cell else " (").append_text(inline(muted(part.part)))
            text.append("" if cell else ")")
        case n.Bar():
            text.append(bar(part.share), STYLES[part.tone] if part.tone else BAR_COLOUR)
        case n.Reference():
            text.append_text(inline(part.part))
        case n.Sign():
            text.append(f"{part.mark} {part.word}")
        case n.VerdictPill():
            shown = f"{SIGNS.get(part.kind, '·')} {visible(part.words or part.kind)}"
            text.append(shown, VERDICTS.get(part.kind, ""))
        case n.Sparkline():
            text.append(sparkline(part))


def _append_number(text: Text, number: Number, places: int | None, cell: bool) -> None:
    text.append(value_text(number, places), "" if number.sound else STYLES[Tone.STRUCK])
    if not number.sound:  # a stroke is not seen in a file
        text.append(" ✗", STYLES[Tone.WRONG])
    if interval := ", ".join(beside(number, places)):
        text.append(f"\n{interval}" if cell else f" ({interval})", MUTED)


def bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of a character; what is not nothing is seen."""
    if not math.isfinite(share):
        return ""
    eighths = max(round(min(1.0, share) * width * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def sparkline(part: n.Sparkline) -> str:
    """A step of eight for each place of the budget; a gap where nothing was measured."""
    places = part.places(SPARK)
    low, high = part.span
    range_ = (high - low) or 1.0
    steps = (
        " " if value is None else STEPS[round((value - low) / range_ * (len(STEPS) - 1))] for value in places
    )
    return "".join(steps) + ("✗" if part.broken else "")


# ---------------------------------------------------------------- nodes
def pieces(node: Node, console: Console) -> Iterator[RenderableType]:
    """A node, and what has to be known to read it."""
    yield block(node, console)
    if isinstance(node, n.Table | n.Figure | n.Grid | n.Frame) and node.note:
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
        case n.Forest():
            return table(node.table, console)
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
        case n.Frame():
            return Text()


def _title(node: Node) -> Inline:
    return node.title if isinstance(node, n.Table | n.Figure | n.Grid | n.Definitions | n.Section) else ""


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

        return Markdown(node.text)
    if node.language:
        from rich.syntax import Syntax

        return Syntax(node.text, node.language, word_wrap=True)
    return Text(visible_lines(node.text))


# ---------------------------------------------------------------- tables
def table(node: n.Table, console: Console) -> RenderableType:
    """Rules between head and rows alone; a table of names that does not fit is a list of its rows."""
    drawn = RichTable(
        title=inline(node.title) if node.title else None,
        title_justify="left",
        title_style="bold",
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
    return drawn


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


# ---------------------------------------------------------------- figures
def figure(node: n.Figure) -> RenderableType:
    """The first chart of it."""
    chart = node.first
    if isinstance(chart, n.Lines):
        return curves(node.title, chart)
    if isinstance(chart, n.Bars):
        return histogram(node.title, chart)
    tokens = list(chart.tokens)
    values = [[weight or 0.0 for weight in row] for row in chart.weights]
    return grid(n.Grid(tokens, tokens, values, node.title))


def curves(title: Inline, chart: n.Lines) -> Text:
    """Points in a box, one mark for each curve."""
    across = Scale((x for line in chart.lines for x in line.x), 0, WIDE - 1, log=chart.x.log)
    up = Scale((y for line in chart.lines for y in line.y), HIGH - 1, 0, log=chart.y.log)
    cells = [[" "] * WIDE for _ in range(HIGH)]
    for number, line in enumerate(chart.lines):
        for x, y in zip(line.x, line.y, strict=True):
            if x is not None and y is not None and across.holds(x) and up.holds(y):
                cells[round(up(y))][round(across(x))] = MARKS[number % len(MARKS)]
    labels = {round(up(value)): short(float(value)) for value in up.ticks()}
    text = Text(no_wrap=True).append_text(inline(strong(title))).append("\n")
    text.append(f"{visible(chart.y.title)}\n", MUTED)
    for line_number, row in enumerate(cells):
        text.append(f"{labels.get(line_number, ''):>9} ┤", MUTED)
        text.append("".join(row) + "\n")
    text.append(f"{'':>9} └{'─' * WIDE}\n{'':>11}{_tick_line(across)}\n", MUTED)
    text.append(f"{'':>11}{visible(chart.x.title)}\n", MUTED)
    names = (
        f"{MARKS[number % len(MARKS)]} {visible(line.label or line.name)}"
        for number, line in enumerate(chart.lines)
    )
    text.append("   ".join(names))
    text.no_wrap = False
    return text


def _tick_line(scale: Scale) -> str:
    line = [" "] * (WIDE + 8)
    free = 0
    for value in scale.ticks():
        label, at = short(float(value)), round(scale(value))
        if at >= free:
            line[at : at + len(label)] = label
            free = at + len(label) + 1
    return "".join(line).rstrip()


def histogram(title: Inline, chart: n.Bars) -> Text:
    """A line a bin."""
    most, total = max(chart.counts, default=0) or 1, sum(chart.counts) or 1
    labels = [f"{low:g} to {high:g}" for low, high in zip(chart.edges, chart.edges[1:], strict=False)]
    wide = max(map(len, labels), default=0)
    text = Text(no_wrap=True)
    if title:
        text.append_text(inline(strong(title))).append("\n")
    for label, count in zip(labels, chart.counts, strict=True):
        drawn = f"{bar(count / most, 44):<44}"
        text.append(f"  {label:>{wide}} ").append(drawn, BAR_COLOUR)
        text.append(f" {fixed(count, 0):>8} {count / total:>6.1%}\n")
    return text[:-1]


def grid(node: n.Grid) -> Text:
    """Two characters a number, one where there are many; negative ones are marked by their colour."""
    names = [visible(name)[:14] for name in node.rows]
    room, count = max(map(len, names), default=0), len(node.columns)
    text = Text(no_wrap=True).append_text(inline(strong(node.title))).append("\n")
    if count > MOST_COLUMNS:
        largest = "\n".join(f"{name:>{room}} → {', '.join(aside)}" for name, aside in zip(names, node.aside))  # noqa: B905
        return text.append(visible_lines(largest) or f"{count} columns; see them with --html FILE.")
    wide = 2 if count <= 28 else 1
    beside_rows = bool(node.aside) and 80 - 16 - count * wide >= 22
    text.append(" " * (room + 1) + _numbers(count, wide) + "\n", MUTED)
    for place, (name, row) in enumerate(zip(names, node.values, strict=True)):
        text.append(f"{name:>{room}} ")
        for value in row:
            text.append(shade(value, node.top) * wide, "dark_orange" if value < 0 else "blue")
        text.append(f" → {visible(node.aside[place][0])}" if beside_rows else "", MUTED)
        text.append("\n")
    return text.append(
        f"{SHADES[4] * 2} = {short(node.top)}" + (", orange: below 0" if node.signed else ""), MUTED
    )


def shade(value: float, top: float) -> str:
    """One of five shades; anything that is not nothing is seen where it is a tenth of the most."""
    share = min(1.0, abs(value) / top) if math.isfinite(value) else 0.0
    return SHADES[min(4, math.ceil(share * 4 - 0.4))] if share >= 0.1 else SHADES[0]


def _numbers(count: int, wide: int) -> str:
    """The columns' numbers, each fifth one where there is no room for all."""
    if wide == 2:
        return "".join(f"{number:<2}" if number < 10 or number % 2 == 0 else "  " for number in range(count))
    return "".join(f"{number:<5}" for number in range(0, count, 5))[:count]


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
