"""Explanations in a terminal: tables, curves as points, grids as shades; and where else they go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from attnlab.cli.console import emit, err, out
from attnlab.config.visible_text import visible
from attnlab.explain.drawing import Axis, told
from attnlab.explain.explanation import Curves, Explanation, Grid, Listing
from attnlab.runs.display import escape

HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Write a page of one file, which needs no network.")
]
SHADES = " ░▒▓█"
MARKS = "●▲■◆○△□◇"
MOST_COLUMNS = 60
"""Of a grid that fits a terminal."""
HIGH, WIDE = 14, 56
"""Lines and columns of curves."""


def present(found: Explanation, *, json: bool, html: Path | None) -> None:
    """To the terminal or as JSON, and as a page where one is asked for."""
    save_page(found, html)
    if json:
        return emit(found.as_json())
    out.print(escape(visible(found.summary)), highlight=False)
    for part in found.parts():
        out.print()
        if isinstance(part, Listing):
            out.print(listing(part))
        elif isinstance(part, Curves):
            out.print(curves(part))
        elif len(part.columns) <= MOST_COLUMNS:
            out.print(shaded(part))
        else:
            out.print(
                f"[bold]{escape(part.title)}[/]: {len(part.columns)} columns; see them with --html FILE."
            )
        if part.note:
            out.print(f"[dim]{escape(visible(part.note))}[/]", highlight=False)
    return None


def save_page(found: Explanation, html: Path | None) -> None:
    if html is not None:
        found.save(html)
        err.print(f"Page: {escape(str(html))}", highlight=False, soft_wrap=True)


def listing(part: Listing) -> Table:
    table = Table(
        title=escape(part.title), title_justify="left", title_style="bold", show_edge=False, pad_edge=False
    )
    for place, name in enumerate(part.columns):
        numbers = all(row[place] is None or isinstance(row[place], (int, float)) for row in part.rows)
        table.add_column(escape(visible(name)), justify="right" if numbers else "left")
    for row in part.rows:
        table.add_row(*(escape(visible(told(value))) for value in row))
    return table


def shade(value: float, top: float) -> str:
    """One of five shades; anything that is not nothing is seen where it is a tenth of the most."""
    share = min(1.0, abs(value) / top) if math.isfinite(value) else 0.0
    return SHADES[min(4, math.ceil(share * 4 - 0.4))] if share >= 0.1 else SHADES[0]


def shaded(part: Grid, aside: Sequence[str] = ()) -> Text:
    """Two characters a number, one where there are many; negative ones are marked by their colour."""
    names = [visible(name)[:14] for name in part.rows]
    room, wide = max(map(len, names), default=0), 2 if len(part.columns) <= 28 else 1
    text = Text(f"{part.title}\n", "bold", no_wrap=True)
    text.append(" " * (room + 1) + _numbers(len(part.columns), wide) + "\n", "dim")
    for place, (name, row) in enumerate(zip(names, part.values, strict=True)):
        text.append(f"{name:>{room}} ", "")
        for value in row:
            text.append(shade(value, part.top) * wide, "dark_orange" if value < 0 else "blue")
        text.append(f" {aside[place]}" if aside else "", "dim")
        text.append("\n")
    text.append(f"{SHADES[4] * 2} = {told(part.top)}" + (", orange: below 0" if part.signed else ""), "dim")
    return text


def _numbers(count: int, wide: int) -> str:
    """The columns' numbers, each fifth one where there is no room for all."""
    if wide == 2 and count <= 28:
        return "".join(f"{number:<2}" if number < 10 or number % 2 == 0 else "  " for number in range(count))
    return "".join(f"{number:<5}" for number in range(0, count, 5))[:count]


def curves(part: Curves) -> Text:
    """Points in a box, one mark for each curve."""
    across = Axis([v for curve in part.curves for v in curve.x], 0, WIDE - 1, part.log_x)
    up = Axis([v for curve in part.curves for v in curve.y], HIGH - 1, 0, part.log_y)
    cells = [[" "] * WIDE for _ in range(HIGH)]
    for number, curve in enumerate(part.curves):
        for a, b in zip(curve.x, curve.y, strict=True):
            if across.holds(a) and up.holds(b):
                cells[round(up(b))][round(across(a))] = MARKS[number % len(MARKS)]
    labels = {round(up(value)): told(float(value)) for value in up.ticks()}
    text = Text(f"{part.title}\n", "bold", no_wrap=True)
    text.append(f"{part.y}\n", "dim")
    for line, row in enumerate(cells):
        text.append(f"{labels.get(line, ''):>9} ┤", "dim")
        text.append("".join(row) + "\n")
    text.append(f"{'':>9} └{'─' * WIDE}\n{'':>11}{_ticks(across)}\n{'':>11}{part.x}\n", "dim")
    names = (f"{MARKS[n % len(MARKS)]} {visible(c.name)}" for n, c in enumerate(part.curves))
    text.append("   ".join(names))
    text.no_wrap = False
    return text


def _ticks(axis: Axis) -> str:
    line = [" "] * (WIDE + 8)
    free = 0
    for value in axis.ticks():
        label, at = told(float(value)), round(axis(value))
        if at >= free:
            line[at : at + len(label)] = label
            free = at + len(label) + 1
    return "".join(line).rstrip()
