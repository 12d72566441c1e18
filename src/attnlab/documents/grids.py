"""Grids and stacked bars as HTML: one ramp and its key, a sign that survives without colour, and a cell of
its own kind where a pair is not allowed."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from attnlab.documents.grid_wording import grid_sentence, key_ends, nothing_sentence, plain_title
from attnlab.documents.markup import element, plain
from attnlab.documents.nodes import Grid, Grids, GridScale, Number, StackedBar, Table, scale_of
from attnlab.documents.numbers import short, value_text
from attnlab.documents.palette import COLOURS, ramp, shade

CELL, SMALL, MOST_CELLS = 26, 4, 48
"""A cell's side, the least of it, and the number of columns up to which it is not smaller."""
NAMED, MARKED = 10, 16
"""A cell's side from which on rows and columns are named, and numbers below zero have their minus."""
SEEN = 0.05
"""The share of a full shade from which on a sign is worth a mark."""
WRITTEN = 44
"""A cell's width where its number stands in it."""


TableRenderer = Callable[[Table], Markup]


def grid(node: Grid, table: TableRenderer) -> Markup:
    """Alone, with its key; its numbers as a table too."""
    scale = scale_of(node)
    shown_key = "" if node.nothing_beside(scale) else key(scale, node.key)
    return element("div", _picture(node, scale, table), shown_key, class_="grid-figure")


def grids(node: Grids, table: TableRenderer, level: int) -> Markup:
    """Side by side where there is room, on one scale, whose key stands once."""
    scale = scale_of(*node.grids)
    pictures = [
        element("section", element(f"h{level + 1}", plain_title(one.title)), _picture(one, scale, table))
        for one in node.grids
    ]
    own = node.grids[0].key if node.grids else ()
    return element("div", element("div", *pictures, class_="grids"), key(scale, own), class_="grid-figure")


def _picture(node: Grid, scale: GridScale, table: TableRenderer) -> Markup:
    if node.nothing_beside(scale):
        return element("p", nothing_sentence(node), class_="empty")
    label = {"role": "region", "tabindex": 0, "aria_label": f"{plain_title(node.title) or 'Grid'}, to scroll"}
    numbers = element(
        "details", element("summary", "Numbers"), table(numbers_of(node)), class_="grid-numbers"
    )
    drawn = element("div", shades(node, scale), class_="scroll", **label)
    return drawn + (numbers if len(node.columns) <= MOST_CELLS and not node.key else "")


def numbers_of(node: Grid) -> Table:
    """The same as a table, for whoever does not see shades."""
    rows = [(name, *values) for name, values in zip(node.rows, node.values, strict=True)]
    title = plain_title(node.title)
    return Table(("", *node.columns), rows, title=f"Numbers of {title}" if title else "Numbers")


def shades(node: Grid, scale: GridScale) -> Markup:
    """Drawn at its size, never stretched: a shade for each number, which pointing shows exactly."""
    rows, columns = list(map(plain, node.rows)), list(map(plain, node.columns))
    high = CELL if len(columns) <= MOST_CELLS else max(SMALL, CELL * MOST_CELLS // len(columns))
    wide = WRITTEN if node.written else high
    room, head = (
        8 * max(map(len, names), default=1) + 12 if high > NAMED else 1 for names in (rows, columns)
    )
    parts = []
    for place, name in enumerate(columns if high > NAMED else ()):
        turned = f"translate({room + place * wide + wide / 2 + 4} {head - 6}) rotate(-90)"
        parts.append(element("text", name, transform=turned))
    for down, (name, row) in enumerate(zip(rows, node.values, strict=True)):
        y = head + down * high
        if high > NAMED:
            parts.append(element("text", name, x=room - 6, y=y + high / 2 + 4, text_anchor="end"))
        for place, value in enumerate(row):
            said = f"{name}, {columns[place]}: {'not allowed' if value is None else short(value)}"
            parts.append(_cell(value, scale, room + place * wide, y, (wide, high), said, node.written))
    width, height = room + wide * len(columns) + 1, head + high * len(rows) + 1
    look = {"class_": "grid-svg", "width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    return element("svg", *parts, **look, role="img", aria_label=grid_sentence(node))


def _cell(
    value: float | None,
    scale: GridScale,
    x: float,
    y: float,
    size: tuple[int, int],
    said: str,
    written: bool,
) -> Markup:
    """A gap of one pixel on its right and below; a diagonal where there is no number."""
    wide, high = size
    box = {"x": x, "y": y, "width": wide - 1, "height": high - 1}
    title = element("title", said)
    if value is None:
        across = f"M{x} {y + high - 1}L{x + wide - 1} {y}"
        return element("rect", title, class_="forbidden", **box) + element(
            "path", class_="diagonal", d=across
        )
    share = value / scale.top
    cell = element("rect", title, **box, style=f"fill:{shade(share, signed=scale.signed)}")
    text = value_text(Number(value, form="count")) if written else "−" if value < 0 else ""
    if not text or (not written and (high < MARKED or abs(share) < SEEN)):
        return cell
    look = "on-full" if abs(share) > 0.5 else "on-ground"
    middle = {"x": x + (wide - 1) / 2, "y": y + high / 2 + 4, "text_anchor": "middle"}
    return cell + element("text", text, class_=look, **middle)


def key(scale: GridScale, own: tuple[tuple[float | None, str], ...] = ()) -> Markup:
    """What the shades mean: the ramp with its numbers, or a word for each of a few values."""
    if own:
        words = (element("span", _swatch(value, scale), word) for value, word in own)
        return element("p", *words, class_="grid-key")
    ends = key_ends(scale)
    colours = ", ".join(_gradient(scale))
    band = element("i", class_="ramp", style=f"background: linear-gradient(to right, {colours})")
    numbers = [element("span", number) for number in ends]
    named = element("span", element("span", *numbers, class_="ramp-numbers"), band, class_="ramp-key")
    forbidden = element("span", _swatch(None, scale), "not allowed") if scale.forbids else ""
    return element("p", named, forbidden, class_="grid-key")


def _gradient(scale: GridScale) -> list[str]:
    if scale.signed:
        return ["var(--below)", "var(--heat-0)", "var(--above)"]
    return [f"{colour} {100 * stop:.4g}%" for stop, colour in ramp()]


def _swatch(value: float | None, scale: GridScale) -> Markup:
    if value is None:
        return element("i", class_="cell-swatch forbidden-swatch")
    colour = shade(value / scale.top, signed=scale.signed)
    return element("i", class_="cell-swatch", style=f"background: {colour}")


# ---------------------------------------------------------------- stacked bars
def stack(node: StackedBar) -> Markup:
    """One bar of all parts, and each part's name and size below it; the table is the same without colours."""
    pieces, names = [], []
    for place, (name, size, said) in enumerate(node.parts):
        colour = f"var(--arm-{place % len(COLOURS) + 1})"
        share = size / node.whole
        told = f"{name}: {said} ({100 * share:.1f}%)"
        pieces.append(element("i", title=told, style=f"width: {100 * share:.3f}%; background: {colour}"))
        swatch = element("i", class_="cell-swatch", style=f"background: {colour}")
        names.append(element("li", swatch, told))
    bar = element("div", *pieces, class_="stack-bar", role="presentation")
    return element("div", bar, element("ul", *names, class_="stack-names"), class_="stack")
