"""Figures and grids in a terminal, as characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from attnlab.config.visible_text import visible, visible_lines
from attnlab.documents import nodes as n
from attnlab.documents.grid_wording import nothing_sentence
from attnlab.documents.nodes import Inline, strong
from attnlab.documents.numbers import fixed, short
from attnlab.documents.palette import SIGNED, on_any_ground
from attnlab.documents.scale import Scale
from attnlab.documents.terminal_text import BAR_COLOUR, MUTED, bar, inline

HIGH, WIDE = 14, 56
"""Lines and columns of a figure."""
MOST_NAMED = 10
"""Values along an axis that are each named."""
MARKS = "●▲■◆○△□◇"
SHADES, BELOW_ZERO, FORBIDDEN = " ░▒▓█", " ╌─═≡", "╱"
"""Amounts, amounts below zero (strokes: the sign is seen without colours too), and no number at all."""
ABOVE, BELOW = (on_any_ground(SIGNED[side]) for side in ("above", "below"))
MOST_COLUMNS, ROOM = 60, 80
"""Of a grid that fits a terminal."""


def figure(node: n.Figure) -> RenderableType:
    """The first chart of it."""
    chart = node.first
    if isinstance(chart, n.Lines):
        return curves(node.title, chart)
    if isinstance(chart, n.Bars):
        return histogram(node.title, chart)
    tokens = list(chart.tokens)
    return grid(n.Grid(tokens, tokens, chart.weights, node.title, scale=chart.top))


def curves(title: Inline, chart: n.Lines) -> Text:
    """Points in a box, one mark for each curve."""
    across = Scale((x for line in chart.lines for x in line.x), 0, WIDE - 1, log=chart.x.log)
    floor = [0.0] if chart.y.from_zero else []
    up = Scale([*floor, *(y for line in chart.lines for y in line.y)], HIGH - 1, 0, log=chart.y.log)
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
    text.append(f"{'':>9} └{'─' * WIDE}\n{'':>11}{_tick_line(across, chart.x)}\n", MUTED)
    text.append(f"{'':>11}{visible(chart.x.title)}\n", MUTED)
    names = (
        f"{MARKS[number % len(MARKS)]} {visible(line.label or line.name)}"
        for number, line in enumerate(chart.lines)
    )
    text.append("   ".join(names))
    text.no_wrap = False
    return text


def _tick_line(scale: Scale, axis: n.Axis) -> str:
    line = [" "] * (WIDE + 8)
    free = 0
    for value in axis.at if 1 < len(axis.at) <= MOST_NAMED else scale.ticks():
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


def grids(node: n.Grids) -> RenderableType:
    """One below the other on one scale, whose key stands once."""
    title = [inline(strong(node.title))] if node.title else []
    scale = n.scale_of(*node.grids)
    drawn = [cells(one, scale) for one in node.grids]
    gaps = (part for one in drawn for part in (one, Text("")))
    return Group(*title, *gaps, key_line(scale, node.grids[0].key))


def grid(node: n.Grid) -> Text:
    scale = n.scale_of(node)
    text = cells(node, scale)
    if len(node.columns) <= MOST_COLUMNS and not node.nothing_beside(scale) and not node.written:
        text.append("\n").append_text(key_line(scale, node.key))
    return text


def cells(node: n.Grid, scale: n.GridScale) -> Text:
    """Two characters a number, one where there are many; those below zero are strokes."""
    count = len(node.columns)
    beside = 22 * bool(node.aside) + count * (2 if count <= 28 else 1) + 2
    most = 20 if node.written else min(28, max(14, ROOM - beside))
    names = [visible(name)[:most] for name in node.rows]
    room = max(map(len, names), default=0)
    text = Text(no_wrap=True).append_text(inline(strong(node.title))).append("\n" if node.title else "")
    if count > MOST_COLUMNS:
        largest = "\n".join(f"{name:>{room}} → {', '.join(aside)}" for name, aside in zip(names, node.aside))  # noqa: B905
        return text.append(visible_lines(largest) or f"{count} columns; see them with --html FILE.")
    if node.nothing_beside(scale):
        return text.append(nothing_sentence(node))
    if node.written:
        return text.append_text(_counts(node, names, scale))
    wide = 2 if count <= 28 else 1
    beside_rows = bool(node.aside) and ROOM - room - 2 - count * wide >= 22
    heads = [*(_upright(node.columns, wide) if node.upright else ()), _numbers(count, wide)]
    text.append("".join(" " * (room + 1) + head + "\n" for head in heads), MUTED)
    for place, (name, row) in enumerate(zip(names, node.values, strict=True)):
        text.append("\n" if place else "").append(f"{name:>{room}} ")
        for value in row:
            drawn = f"{FORBIDDEN:<{wide}}" if value is None else shade(value, scale.top) * wide
            text.append(drawn, MUTED if value is None else BELOW if value < 0 else ABOVE)
        text.append(f" → {visible(node.aside[place][0])}" if beside_rows else "", MUTED)
    return text


def _counts(node: n.Grid, names: Sequence[str], scale: n.GridScale) -> Text:
    """Numbers in their cells, those of the diagonal strong and noughts as dots; columns by their number."""
    wide = max(len(fixed(scale.top, 0)), 2) + 2
    room = max(map(len, names), default=0)
    numbered = ["".join(f"{i:>{wide}}" for i in range(len(node.columns)))]
    heads = [*(_upright(node.columns, wide, right=True) if node.upright else ()), *numbered]
    text = Text(no_wrap=True).append("\n".join(" " * room + head for head in heads), MUTED)
    for down, (name, row) in enumerate(zip(names, node.values, strict=True)):
        text.append(f"\n{name:<{room}}")
        for place, value in enumerate(row):
            shown = f"{value or 0:.0f}" if node.noughts else fixed(value, 0) if value else "·"
            strong_cell = place == down and not node.noughts
            text.append(f"{shown:>{wide}}", MUTED if not value else "bold" if strong_cell else "")
    return text


def key_line(scale: n.GridScale, own: tuple[tuple[float | None, str], ...] = ()) -> Text:
    """What the shades mean."""
    if own:
        parts = [f"{FORBIDDEN if v is None else shade(v, scale.top) * 2} {visible(word)}" for v, word in own]
        return Text(", ".join(parts), MUTED)
    text = Text(style=MUTED).append(SHADES[4] * 2, ABOVE).append(f" = {short(scale.top)}")
    if scale.signed:
        text.append(", ").append(BELOW_ZERO[4] * 2, BELOW).append(f" = {short(-scale.top)}")
    return text.append(f", {FORBIDDEN} not allowed" if scale.forbids else "")


def shade(value: float, top: float) -> str:
    """One of five shades; anything that is not nothing is seen where it is a tenth of the most."""
    share = min(1.0, abs(value) / top) if math.isfinite(value) else 0.0
    signs = BELOW_ZERO if value < 0 else SHADES
    return signs[min(4, math.ceil(share * 4 - 0.4))] if share >= 0.1 else signs[0]


def _upright(names: Sequence[str], wide: int, *, right: bool = False) -> list[str]:
    """The columns' names from top to bottom, a line for each character; all of them end at the grid."""
    shown = [visible(name)[:14] for name in names]
    high = max(map(len, shown), default=0)
    lines = zip(*(f"{name:>{high}}" for name in shown), strict=True)
    side = ">" if right else "<"
    return ["".join(f"{character:{side}{wide}}" for character in line).rstrip() for line in lines]


def _numbers(count: int, wide: int) -> str:
    """The columns' numbers, each fifth one where there is no room for all."""
    if wide == 2:
        return "".join(f"{number:<2}" if number < 10 or number % 2 == 0 else "  " for number in range(count))
    return "".join(f"{number:<5}" for number in range(0, count, 5))[:count]


# ---------------------------------------------------------------- forests
SPREAD = 25
"""Columns of a forest's axis."""


def forest(node: n.Forest) -> n.Table:
    """A row each: its interval along an axis that all share, with the line of no difference in it."""
    rows = [row for row in node.rows if row.sets_scale] or node.rows
    ends = [end for row in rows for end in (row.difference.value, row.difference.low, row.difference.high)]
    across = Scale([0.0, *(end for end in ends if end is not None)], 0, SPREAD - 1)
    lines = [(row.name, _whisker(row.difference, across), row.difference, row.said) for row in node.rows]
    sides = f"← {node.left}{'':>{max(1, SPREAD - len(node.left) - len(node.right) - 4)}}{node.right} →"
    return n.Table(("", n.TableColumn(sides, whole=True), "difference", ""), lines, title=node.caption)


def _whisker(difference: n.Number, across: Scale) -> str:
    """──●── on the axis; what lies beyond it is an arrow."""
    cells = [" "] * SPREAD
    cells[round(across(0.0))] = "│"

    def at(value: float) -> int:
        return min(max(round(across(value)), 0), SPREAD - 1)

    low, high, value = difference.low, difference.high, difference.value
    if low is not None and high is not None and across.holds(low) and across.holds(high):
        for place in range(at(low), at(high) + 1):
            cells[place] = "┼" if cells[place] == "│" else "─"
    if value is not None and across.holds(value):
        beyond = "◀" if across(value) < 0 else "▶" if across(value) > SPREAD - 1 else ""
        cells[at(value)] = beyond or "●"
    return "".join(cells)
