"""Figures for paper: a column wide, black text of 8 points, as SVG and as PDF, from the same marks."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.config.values import ConfigError
from attnlab.documents.descriptions import tick_text
from attnlab.documents.markup import element
from attnlab.documents.nodes import Axis, Bars, Forest, Line, Lines
from attnlab.documents.numbers import known
from attnlab.documents.palette import BASELINE, COLOURS, INVALID, Ink, ink
from attnlab.documents.scale import Scale, set_apart

WIDTH = 240.0
LEVELS_APART = 9.0
"""Points: 3 1/3 inches, a column of two on letter paper or A4."""
HEIGHT, ROW = 150.0, 15.0
FONT, LETTER = 8.0, 4.4
"""Points of a letter, and about how wide it is."""
GREY, LIGHT = "#666666", "#cccccc"
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
DASHES = {"dash": (4, 2), "longdash": (7, 2), "dashdot": (5, 2, 1, 2), "dot": (1, 2)}


@dataclass(frozen=True)
class Stroke:
    """Points that are joined, or the area within them where it is filled."""

    points: Sequence[tuple[float, float]]
    colour: str
    width: float = 0.5
    dash: tuple[int, ...] = ()
    filled: float = 0.0
    """How much of the colour an area has; 0: it is a line."""


@dataclass(frozen=True)
class Letters:
    """A text on its baseline; `anchor`: start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    colour: str = "#000000"


@dataclass(frozen=True)
class Drawing:
    """Marks from the top left, in points."""

    height: float
    marks: Sequence[Stroke | Letters]
    width: float = WIDTH


def colour_of(own: Ink) -> str:
    """An arm's colour on white paper."""
    name = own.colour.removeprefix("var(--").removesuffix(")")
    if name == "arm-0":
        return BASELINE[0]
    number = name.removeprefix("arm-")
    return COLOURS[int(number) - 1][0] if number.isdecimal() else INVALID[0]


def plain_tick(value: float, axis: Axis) -> str:
    """A number along an axis in signs that every font has: 1.4e6 for 1.4×10⁶."""
    text = tick_text(value, axis)
    raised = re.search(f"(×?10)([{SUPERSCRIPTS}]+)$", text)
    if raised is None:
        return text
    power = raised[2].translate(str.maketrans(SUPERSCRIPTS, "0123456789-"))
    return f"{text[: raised.start()] or '1'}e{power}"


def has_points(chart: Lines | Bars) -> bool:
    """Whether there is anything to draw."""
    if isinstance(chart, Bars):
        return any(chart.counts)
    pairs = ((x, y) for line in chart.lines for x, y in zip(line.x, line.y, strict=True))
    return any(known(x) and known(y) for x, y in pairs)


# ---------------------------------------------------------------- figures
def drawing_of(chart: Lines | Bars) -> Drawing:
    """Curves with their names below, or a histogram."""
    return _lines(chart) if isinstance(chart, Lines) else _bars(chart)


def _lines(chart: Lines) -> Drawing:
    sides = [side for line in chart.lines for side in (line.y, line.low or (), line.high or ())]
    ys = [y for side in sides for y in side] + [level.value for level in chart.levels]
    up = Scale([*ys, *([0.0] if chart.y.from_zero else [])], HEIGHT - 28, 14, log=chart.y.log)
    left = 10 + LETTER * max((len(plain_tick(tick, chart.y)) for tick in up.ticks()), default=1)
    across = Scale((x for line in chart.lines for x in line.x), left, WIDTH - 8, log=chart.x.log)
    marks: list[Stroke | Letters] = [*_axes(across, up, chart.x, chart.y)]
    names = set_apart([-up(level.value) for level in chart.levels], LEVELS_APART)
    for level, above in zip(chart.levels, names, strict=True):
        at = up(level.value)
        marks.append(Stroke([(left, at), (WIDTH - 8, at)], GREY, 0.6, (2, 2)))
        marks.append(Letters(WIDTH - 8, -above - 2, level.name, "end", GREY))
    for place, line in enumerate(chart.lines):
        marks += _curve(line, line.ink or ink(place), across, up)
    named = [(place, line) for place, line in enumerate(chart.lines) if not line.thin]
    bottom = HEIGHT + 2
    for place, line in named:
        own = line.ink or ink(place)
        sample = Stroke([(left, bottom), (left + 18, bottom)], colour_of(own), 1.2, DASHES.get(own.dash, ()))
        marks.append(_dot((left + 9, bottom), colour_of(own)) if line.dots else sample)
        marks.append(Letters(left + 22, bottom + 3, line.label or line.name))
        bottom += 11
    return Drawing(bottom, marks)


def _curve(line: Line, own: Ink, across: Scale, up: Scale) -> Iterator[Stroke]:
    colour = colour_of(own)

    def points(values: Sequence[float | None]) -> list[tuple[float, float]]:
        pairs = zip(line.x, values, strict=True)
        return [
            (across(x), up(y)) for x, y in pairs if known(x) and known(y) and across.holds(x) and up.holds(y)
        ]

    low, high = (points(side) if side is not None else [] for side in (line.low, line.high))
    if line.dots:
        yield from (Stroke(ends, colour, 0.8) for ends in _whiskers(points(line.y), low, high))
        yield from (_dot(at, colour) for at in points(line.y))
        return
    if low and high:
        yield Stroke([*low, *reversed(high)], colour, filled=0.15)
    yield Stroke(points(line.y), colour, 0.5 if line.thin else 1.2, DASHES.get(own.dash, ()))


def _whiskers(
    points: Sequence[tuple[float, float]],
    low: Sequence[tuple[float, float]],
    high: Sequence[tuple[float, float]],
) -> Iterator[Sequence[tuple[float, float]]]:
    """The interval of each point, up and down."""
    if len(points) == len(low) == len(high):
        yield from ([below, above] for below, above in zip(low, high, strict=True))


def _dot(at: tuple[float, float], colour: str, half: float = 1.6) -> Stroke:
    x, y = at
    corners = [(x - half, y), (x, y - half), (x + half, y), (x, y + half)]
    return Stroke(corners, colour, filled=1.0)


def _axes(across: Scale, up: Scale, x: Axis, y: Axis) -> Iterator[Stroke | Letters]:
    left, right, bottom = across.start, across.stop, up.start
    for value in up.ticks():
        yield Stroke([(left, up(value)), (right, up(value))], LIGHT)
        yield Letters(left - 4, up(value) + 3, plain_tick(value, y), "end")
    yield Stroke([(left, bottom), (right, bottom)], "#000000")
    yield from _named(across, x, bottom + 10)
    yield Letters((left + right) / 2, bottom + 21, x.title, "middle")
    yield Letters(0, 7, y.title)


def _named(across: Scale, axis: Axis, y: float) -> Iterator[Letters]:
    """Values along the bottom, as many as have room, and no two alike."""
    values = across.ticks()
    texts = [plain_tick(value, axis) for value in values]
    if len(set(texts)) < len(texts):
        texts = [f"{value:,.10g}" for value in values]
    last = -WIDTH
    for value, text in zip(values, texts, strict=True):
        if across(value) - last > LETTER * (len(text) + 2):
            yield Letters(across(value), y, text, "middle")
            last = across(value)


def _bars(chart: Bars) -> Drawing:
    up = Scale([0.0, *chart.counts], HEIGHT - 28, 14)
    left = 10 + LETTER * max((len(plain_tick(tick, chart.y)) for tick in up.ticks()), default=1)
    across = Scale(chart.edges, left, WIDTH - 8, log=chart.x.log)
    marks: list[Stroke | Letters] = [*_axes(across, up, chart.x, chart.y)]
    for low, high, count in zip(chart.edges[:-1], chart.edges[1:], chart.counts, strict=True):
        sides, top, bottom = (across(low) + 0.5, across(high) - 0.5), up(count), up(0.0)
        corners = [(sides[0], bottom), (sides[0], top), (sides[1], top), (sides[1], bottom)]
        marks.append(Stroke(corners, COLOURS[0][0], filled=0.8))
    return Drawing(HEIGHT, marks)


def forest_drawing(forest: Forest) -> Drawing:
    """Differences with their intervals, a row an arm, and what each comes to."""
    rows = [row for row in forest.rows if known(row.difference.value)]
    ends = [end for row in rows for end in (row.difference.low, row.difference.high, row.difference.value)]
    left = 10 + LETTER * max((len(row.name.text) for row in forest.rows), default=1)
    right = WIDTH - 10 - LETTER * max((len(row.said.kind) for row in forest.rows), default=1)
    across, bottom = Scale([0.0, *ends], left, right), 16 + ROW * len(forest.rows)
    axis = Axis(form=rows[0].difference.form if rows else "plain")
    marks: list[Stroke | Letters] = [Stroke([(across(0.0), 12), (across(0.0), bottom)], GREY, 0.5, (2, 2))]
    for place, row in enumerate(forest.rows):
        y, own = 16 + ROW * (place + 0.5), colour_of(row.name.ink or ink(place + 1))
        marks.append(Letters(left - 8, y + 3, row.name.text, "end"))
        marks.append(Letters(right + 8, y + 3, row.said.kind))
        value, low, high = row.difference.value, row.difference.low, row.difference.high
        if low is not None and high is not None and known(low) and known(high):
            marks.append(Stroke([(across(low), y), (across(high), y)], own, 1.2))
        if value is not None and known(value):
            marks.append(_dot((across(value), y), own, 2.4))
    marks.append(Stroke([(left, bottom), (right, bottom)], "#000000"))
    marks += _named(across, axis, bottom + 10)
    marks.append(Letters(left, 8, forest.left, "start", GREY))
    marks.append(Letters(right, 8, forest.right, "end", GREY))
    return Drawing(bottom + 14, marks)


# ---------------------------------------------------------------- files
def as_svg(drawing: Drawing) -> str:
    """A file of its own, without styles or scripts."""
    inside = [_svg_mark(mark) for mark in drawing.marks]
    size = {"width": f"{drawing.width}pt", "height": f"{drawing.height:g}pt"}
    box = f"0 0 {drawing.width:g} {drawing.height:g}"
    font = {"font_family": "Helvetica, Arial, sans-serif", "font_size": FONT}
    return (
        str(element("svg", *inside, xmlns="http://www.w3.org/2000/svg", viewBox=box, **size, **font)) + "\n"
    )


def _svg_mark(mark: Stroke | Letters) -> Any:
    if isinstance(mark, Letters):
        place = {"x": round(mark.x, 2), "y": round(mark.y, 2)}
        return element("text", mark.text, **place, text_anchor=mark.anchor, fill=mark.colour)
    points = " ".join(f"{x:g},{y:g}" for x, y in mark.points)
    if mark.filled:
        return element("polygon", points=points, fill=mark.colour, fill_opacity=mark.filled)
    line: dict[str, object] = {"fill": "none", "stroke": mark.colour, "stroke_width": mark.width}
    dash = " ".join(map(str, mark.dash))
    return element("polyline", points=points, **line, **({"stroke_dasharray": dash} if dash else {}))


def as_pdf(drawing: Drawing, title: str = "") -> bytes:
    """The same as a page of its size, its font embedded."""
    try:
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.ttfonts import TTFont
        from reportlab.pdfgen.canvas import Canvas
    except ImportError as error:
        raise ConfigError(
            'PDF files need reportlab: pip install "attnlab[paper]", or give --no-pdf.'
        ) from error
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))  # which reportlab brings along
    content = io.BytesIO()
    canvas = Canvas(content, pagesize=(drawing.width, drawing.height), invariant=1)
    canvas.setTitle(title)
    canvas.setFont("Vera", FONT - 1)
    for mark in drawing.marks:
        _draw(canvas, mark, drawing.height)
    canvas.save()
    return content.getvalue()


def _draw(canvas: Any, mark: Stroke | Letters, height: float) -> None:
    if isinstance(mark, Letters):
        canvas.setFillColor(mark.colour, alpha=1)
        draw = {"start": canvas.drawString, "middle": canvas.drawCentredString, "end": canvas.drawRightString}
        draw[mark.anchor](mark.x, height - mark.y, mark.text)
        return
    if not mark.points:
        return
    path = canvas.beginPath()
    path.moveTo(mark.points[0][0], height - mark.points[0][1])
    for x, y in mark.points[1:]:
        path.lineTo(x, height - y)
    if mark.filled:
        path.close()
        canvas.setFillColor(mark.colour, alpha=mark.filled)
        canvas.drawPath(path, stroke=0, fill=1)
        return
    canvas.setStrokeColor(mark.colour)
    canvas.setLineWidth(mark.width)
    canvas.setDash(list(mark.dash))
    canvas.drawPath(path, stroke=1, fill=0)
