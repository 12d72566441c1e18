"""Tables, curves and grids as HTML that needs no script. Colours are CSS variables of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from attnlab.config.visible_text import visible

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 320, 64, 46, 14, 160
CELL, MOST_CELLS = 26, 48
"""A cell's side, and the number of cells in a row up to which their numbers can be read on hovering."""
COLOURS = 8
"""Of the palette, before they begin again."""

Line = tuple[str, Sequence[float], Sequence[float]]


def told(value: Any) -> str:
    """A cell's text: numbers to three digits."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e4 or not math.isfinite(value) else f"{value:.3e}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Markup:
    head = Markup("").join(_cell("th", name, _numeric(rows, place)) for place, name in enumerate(columns))
    lines = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(_cell("td", value, _numeric(rows, place)) for place, value in enumerate(row))
        )
        for row in rows
    )
    whole = '<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(whole).format(head, lines)


def _numeric(rows: Sequence[Sequence[Any]], place: int) -> bool:
    return all(row[place] is None or isinstance(row[place], (int, float)) for row in rows)


def _cell(tag: str, value: Any, numeric: bool) -> Markup:
    kind = Markup(' class="number"') if numeric else Markup("")
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), kind, visible(told(value)))


# ---------------------------------------------------------------- curves
class Axis:
    """Numbers to places along one side, and where to name them."""

    def __init__(self, values: Sequence[float], start: float, stop: float, log: bool):
        known = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
        self.log, self.start, self.stop = log, start, stop
        self.low, self.high = self._of(min(known)), self._of(max(known))
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        if not log:
            margin = (self.high - self.low) * 0.04
            self.low, self.high = self.low - margin, self.high + margin

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def holds(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.log)

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9)
            every = max(1, (last - first) // 6)
            found = [10.0**power for power in range(first, last + 1, every)]
            return found if len(found) > 1 else [10**self.low, *found, 10**self.high]
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * size for size in (1, 2, 5, 10) if power * size >= rough * 0.999)


def lines(drawn: Sequence[Line], *, x: str, y: str, log_x: bool = False, log_y: bool = False) -> Markup:
    """Each with its name at its end."""
    across = Axis([v for _, xs, _ in drawn for v in xs], LEFT, WIDTH - RIGHT, log_x)
    up = Axis([v for _, _, ys in drawn for v in ys], HEIGHT - BOTTOM, TOP, log_y)
    parts = [_axes(across, up, x, y)]
    ends: list[float] = []
    for number, (name, xs, ys) in enumerate(drawn):
        points = [(across(a), up(b)) for a, b in zip(xs, ys, strict=True) if across.holds(a) and up.holds(b)]
        if points:
            parts.append(_curve(number, name, points, ends))
    label = Markup("{} against {}").format(y, x)
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, label, Markup("").join(parts)
    )


def _axes(across: Axis, up: Axis, x: str, y: str) -> Markup:
    parts = []
    for value in up.ticks():
        parts.append(
            Markup(
                '<line class="grid" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>'
                '<text x="{3}" y="{4}" text-anchor="end">{5}</text>'
            ).format(LEFT, WIDTH - RIGHT, up(value), LEFT - 8, up(value) + 4, told(float(value)))
        )
    for value in across.ticks():
        text = Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>')
        parts.append(text.format(across(value), HEIGHT - BOTTOM + 18, told(float(value))))
    parts.append(
        Markup(
            '<path class="axis" fill="none" d="M{0} {1}V{2}H{3}"/>'
            '<text x="{4}" y="{5}" text-anchor="middle">{6}</text>'
            '<text transform="translate(14 {7}) rotate(-90)" text-anchor="middle">{8}</text>'
        ).format(
            *(LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT),
            *((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x),
            *((TOP + HEIGHT - BOTTOM) / 2, y),
        )
    )
    return Markup("").join(parts)


def _curve(number: int, name: str, points: list[tuple[float, float]], ends: list[float]) -> Markup:
    colour = f"var(--arm-{number % (COLOURS + 1)})"
    path = "M" + "L".join(f"{a} {b}" for a, b in points)
    height = points[-1][1]
    while any(abs(height - other) < 14 for other in ends):  # names do not cover each other
        height += 14
    ends.append(height)
    marks = Markup("").join(
        Markup('<circle cx="{}" cy="{}" r="2.5" style="fill:{}"/>').format(a, b, colour) for a, b in points
    )
    return Markup(
        '<path class="curve" style="stroke:{0}" d="{1}"/>{2}<text class="name" x="{3}" y="{4}">'
        '<tspan style="fill:{0}">●</tspan> {5}</text>'
    ).format(colour, path, marks, WIDTH - RIGHT + 8, height + 4, visible(name))


# ---------------------------------------------------------------- grids
def grid(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], *, top: float
) -> Markup:
    """Shades, the exact number on hovering; orange below zero."""
    rows, columns = list(map(visible, rows)), list(map(visible, columns))
    side = CELL if len(columns) <= MOST_CELLS else max(4, CELL * MOST_CELLS // len(columns))
    room = 8 * max(map(len, rows), default=1) + 12
    head = 7 * max(map(len, columns), default=1) + 12
    parts: list[Markup | str] = []
    for place, name in enumerate(columns):
        at = room + place * side + side / 2 + 4
        text = '<text transform="translate({} {}) rotate(-90)">{}</text>'
        parts.append(Markup(text).format(at, head - 6, name) if side > 10 else Markup(""))
    for down, (name, row) in enumerate(zip(rows, values, strict=True)):
        text = Markup('<text x="{}" y="{}" text-anchor="end">{}</text>')
        parts.append(text.format(room - 6, head + down * side + side / 2 + 4, name) if side > 10 else "")
        for place, value in enumerate(row):
            parts.append(
                _shade(room + place * side, head + down * side, side, value, top, name, columns[place])
            )
    return Markup('<svg class="chart" width="{0}" viewBox="0 0 {0} {1}" role="img">{2}</svg>').format(
        room + side * len(columns) + 8, head + side * len(rows) + 8, Markup("").join(parts)
    )


def _shade(x: float, y: float, side: float, value: float, top: float, row: str, column: str) -> Markup:
    colour = "var(--arm-2)" if value < 0 else "var(--arm-1)"
    return Markup(
        '<rect class="cell" x="{}" y="{}" width="{}" height="{}" style="fill:{};fill-opacity:{}">'
        "<title>{}, {}: {}</title></rect>"
    ).format(
        x,
        y,
        side,
        side,
        colour,
        round(min(1.0, abs(value) / top), 3),
        row,
        column,
        escape(told(float(value))),
    )
