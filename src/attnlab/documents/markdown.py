"""Documents as Markdown: text stays text, invalid numbers are struck, figures are left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attnlab.config.visible_text import visible
from attnlab.documents import nodes as n
from attnlab.documents.nodes import Inline, Node, Number, Tone, parts_of
from attnlab.documents.numbers import beside, column_decimals, crossed, known, short, value_text

ACTING = frozenset("<>&`|")
"""What some readers of Markdown take for more than text, even in code."""
MARKS = {Tone.STRONG: "**", Tone.ITALIC: "*", Tone.STRUCK: "~~"}


def plain_text(value: object) -> str:
    """Text that Markdown leaves as it is, on one line."""
    return _begun(_within(str(value)))


def _within(text: str) -> str:
    """Nothing in it is emphasis, code, a heading, a cell's end or a link."""
    line = visible(" ".join(text.split())).replace("&", "&amp;")
    line = re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", line).replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?i)\b(https?|ftp|www)([:.])", r"\1&#8203;\2", line)


def _begun(line: str) -> str:
    """Nor is its beginning a list or a rule."""
    return re.sub(r"^(\d{0,9})([-+.)]|-{3,})(?= |$)", r"\1\\\2", line)


# ---------------------------------------------------------------- sentences
def inline(part: Inline, places: int | None = None) -> str:
    return _begun("".join(_part(piece, places) for piece in parts_of(part)))


def _part(part: n.Part, places: int | None) -> str:
    match part:
        case str():
            return _around(part)
        case None | int() | float():
            return short(part)
        case Number():
            return number(part, places)
        case n.Name():
            return plain_text(part.text) + "".join(f" ({plain_text(word)})" for word, _ in part.tags)
        case n.Code():
            return plain_text(part.text) if ACTING & {*part.text} else f"`{visible(part.text)}`"
        case n.Emphasis():
            mark = MARKS.get(part.tone, "")
            inner = inline(part.part, places)
            return f"{mark}{inner}{mark}" if inner.strip() else inner
        case n.Below():
            return f" ({inline(part.part)})"
        case n.Bar():
            return ""
        case n.Sparkline():
            return plain_text(part.said)
        case n.Reference():
            return inline(part.part)
        case n.Sign():
            return f"{part.mark} {plain_text(part.word)}"
        case n.VerdictPill():
            return plain_text(part.words or part.kind)


def _around(text: str) -> str:
    """A part of a sentence keeps the spaces that hold it apart from its neighbours."""
    before, after = (" " if text[:1].isspace() else ""), (" " if text[-1:].isspace() else "")
    return f"{before}{_within(text)}{after}" if text.strip() else before


def number(part: Number, places: int | None = None) -> str:
    shown = value_text(part, places)
    if not known(part.value):
        return shown
    interval = ", ".join(beside(part, places))
    struck = shown if part.sound else f"✗ {shown}" if crossed(part) else f"~~{shown}~~"
    return struck + (f" ({interval})" if interval else "") + ("" if part.sound else " (invalid)")


# ---------------------------------------------------------------- nodes
def blocks(shown: Sequence[Node], level: int = 2) -> str:
    """Nodes with a line between them; what Markdown cannot show is left out."""
    return "\n\n".join(filter(None, (block(node, level) for node in shown)))


def block(node: Node, level: int = 2) -> str:
    match node:
        case n.Heading():
            return f"{'#' * node.level} {inline(node.text)}"
        case n.Sentence(kind="quoted"):
            return f"> {inline(node.part)}"
        case n.Sentence() | n.Notice():
            return inline(node.part)
        case n.Items():
            marks = (f"{number}." if node.ordered else "-" for number, _ in enumerate(node.items, start=1))
            return "\n".join(f"{next(marks)} {inline(item)}" for item in node.items)
        case n.Table():
            return _titled(node.title, *filter(None, [inline(node.caption), table(node), inline(node.note)]))
        case n.Definitions():
            rows = (f"- *{inline(term)}*: {inline(meaning)}" for term, meaning in node.items)
            return _titled(node.title, "\n".join(rows))
        case n.Forest():
            return block(node.table)
        case n.Marked():
            return "".join(_span(span) for span in node.spans)
        case n.Code():
            return "\n".join(f"    {visible(line)}" for line in node.text.splitlines())
        case n.Details():
            return "" if node.only_pages else blocks(node.nodes, level)
        case n.Cards():
            return "\n\n".join(_titled(item.title, blocks(item.nodes, level)) for item in node.items)
        case n.Section():
            inside = blocks(node.nodes, level + 1)
            return f"{'#' * level} {plain_text(node.title)}\n\n{inside}" if inside else ""
        case n.StackedBar():
            return block(node.table)
        case n.Pictures():
            lines = (
                f"{number}. {inline((item.title, ' ', item.note))}"
                for number, item in enumerate(node.items, 1)
            )
            return _titled(node.title, "\n".join(lines), *filter(None, [inline(node.note)]))
        case n.Figure() | n.Grid() | n.Grids() | n.Frame():
            return ""


def _titled(title: Inline, *rest: str) -> str:
    return "\n\n".join([*([f"**{inline(title)}**"] if title else []), *rest])


def _span(span: n.MarkedSpan) -> str:
    return f"**{_around(span.text)}** ({plain_text(span.label)})" if span.label else _around(span.text)


def table(node: n.Table) -> str:
    places = column_decimals(node)
    grouped = any(row.group for row in node.lines)
    heads = [*(["group"] if grouped else []), *(inline(head.title) for head in node.heads)]
    lines, group = [_row(heads), "|" + "---|" * len(heads)], 0
    for row in node.lines:
        group += bool(row.group)
        cells = [inline(cell, places[place]) for place, cell in enumerate(row.cells)]
        lines.append(_row([*([str(group)] if grouped else []), *cells]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# ---------------------------------------------------------------- pages
def page(document: n.DocumentPage) -> str:
    """The whole document: its headline first."""
    date = f", {plain_text(document.date)}" if document.date else ""
    about = f"attnlab {plain_text(document.kind)} **{plain_text(document.name)}**{date}"
    question = f"> {plain_text(document.question)}" if document.question else ""
    parts = [
        f"# {plain_text(document.headline)}",
        about,
        question,
        blocks(document.lead),
        blocks(document.nodes),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"
