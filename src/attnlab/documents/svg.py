"""Curves as SVG that needs no script. Colours are CSS variables of the page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from attnlab.documents.markup import element
from attnlab.documents.nodes import Lines, Sparkline
from attnlab.documents.numbers import short
from attnlab.documents.palette import COLOURS
from attnlab.documents.scale import Scale

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 320, 64, 46, 14, 160
APART = 14
"""Between names at the ends of curves, so that none covers another."""


def curves(chart: Lines) -> Markup:
    """Each with its name at its end."""
    across = Scale((x for line in chart.lines for x in line.x), LEFT, WIDTH - RIGHT, log=chart.x.log)
    floor = [0.0] if chart.y.from_zero else []
    heights = [*floor, *(y for line in chart.lines for y in line.y)]
    up = Scale(heights, HEIGHT - BOTTOM, TOP, log=chart.y.log)
    parts = [_axes(across, up, chart.x.title, chart.y.title)]
    ends: list[float] = []
    for number, line in enumerate(chart.lines):
        points = [
            (across(x), up(y))
            for x, y in zip(line.x, line.y, strict=True)
            if x is not None and y is not None and across.holds(x) and up.holds(y)
        ]
        if points:
            parts.append(_curve(number, line.label or line.name, points, ends))
    label = f"{chart.y.title} against {chart.x.title}"
    view = f"0 0 {WIDTH} {HEIGHT}"
    return element("svg", *parts, class_="chart", width=WIDTH, viewBox=view, role="img", aria_label=label)


def _axes(across: Scale, up: Scale, x: str, y: str) -> Markup:
    parts = []
    for value in up.ticks():
        at, label = up(value), short(float(value))
        parts.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at))
        parts.append(element("text", label, x=LEFT - 8, y=at + 4, text_anchor="end"))
    for value in across.ticks():
        place = {"x": across(value), "y": HEIGHT - BOTTOM + 18}
        parts.append(element("text", short(float(value)), **place, text_anchor="middle"))
    outline = f"M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"
    turned = f"translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(element("path", class_="axis", fill="none", d=outline))
    parts.append(element("text", x, x=middle, y=HEIGHT - 8, text_anchor="middle"))
    parts.append(element("text", y, transform=turned, text_anchor="middle"))
    return Markup("").join(parts)


def _curve(number: int, name: str, points: Sequence[tuple[float, float]], ends: list[float]) -> Markup:
    colour = f"var(--arm-{number % (len(COLOURS) + 1)})"
    path = "M" + "L".join(f"{x} {y}" for x, y in points)
    height = points[-1][1]
    while any(abs(height - other) < APART for other in ends):
        height += APART
    ends.append(height)
    marks = [element("circle", cx=x, cy=y, r=2.5, style=f"fill:{colour}") for x, y in points]
    sign = element("tspan", "●", style=f"fill:{colour}")
    named = element("text", sign, f" {name}", class_="name", x=WIDTH - RIGHT + 8, y=height + 4)
    return element("path", class_="curve", style=f"stroke:{colour}", d=path) + Markup("").join(marks) + named


SPARK, FLAT = 96, 24
"""A sparkline's width and height."""


def sparkline(part: Sparkline) -> Markup:
    """A line with its last point; a gap where a value is missing, a cross where it broke off."""
    low, high = part.span
    points: list[tuple[float, float] | None] = [
        None
        if value is None
        else (
            round(4 + share * (SPARK - 8), 1),
            round(FLAT - 4 - (value - low) / ((high - low) or 1.0) * (FLAT - 8), 1),
        )
        for share, value in zip(part.shares, part.values, strict=True)
    ]
    path = "".join(
        f"{'L' if i and points[i - 1] else 'M'}{at[0]} {at[1]}" for i, at in enumerate(points) if at
    )
    parts = [element("path", d=path, fill="none", stroke="currentColor", stroke_width=1.5)]
    if ends := [at for at in points if at]:
        x, y = ends[-1]
        mark = element("text", "✗", x=x, y=y + 4) if part.broken else element("circle", cx=x, cy=y, r=2.5)
        parts.append(mark)
    size = {"width": SPARK, "height": FLAT, "viewBox": f"0 0 {SPARK} {FLAT}"}
    return element("svg", *parts, class_="spark", **size, role="img", aria_label=part.said)
