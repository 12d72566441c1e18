"""Curves as SVG that needs no script. Colours are CSS variables of the page.

A drawing is made for a desk and for a phone, each at its size: it is never stretched, so that its text is as
large as that around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from attnlab.documents.descriptions import description, tick_text
from attnlab.documents.markup import element, plain
from attnlab.documents.nodes import Axis, Level, Line, Lines, Sparkline
from attnlab.documents.numbers import known
from attnlab.documents.palette import Ink, ink
from attnlab.documents.scale import Scale, set_apart

SIZES = {"desk": (704, 368), "phone": (328, 304)}
TOP, BOTTOM = 30, 46
LETTER = 6.6
"""The width of a letter of 12 pixels, about: room for a text is kept by it."""
MOST_NAMED = 10
"""Values along an axis that are each named."""
LONGEST = 30
"""Letters of a name at the end of a curve; a longer one is cut in its middle."""
APART = 15
"""Between names at the ends of curves, so that none covers another."""
STROKES = {"dash": "5 3", "longdash": "9 3", "dashdot": "6 3 2 3", "dot": "2 3"}


@dataclass(frozen=True)
class Plane:
    """Where a chart's values lie: scales across and up, and the room that texts around it need."""

    width: int
    height: int
    across: Scale
    up: Scale
    left: float
    right: float

    @classmethod
    def of(cls, chart: Lines, width: int, height: int, *, names: bool) -> Plane:
        sides = [side for line in chart.lines for side in (line.y, line.low or (), line.high or ())]
        ys = [y for side in sides for y in side]
        ys += [*(level.value for level in chart.levels), *([0.0] if chart.y.from_zero else [])]
        up = Scale(ys, height - BOTTOM, TOP, log=chart.y.log)
        left = 16 + LETTER * max((len(tick_text(tick, chart.y)) for tick in up.ticks()), default=1)
        longest = max((min(len(line.label or line.name), LONGEST) for line in chart.lines), default=0)
        right = 32 + LETTER * longest if names else 16.0
        across = Scale((x for line in chart.lines for x in line.x), left, width - right, log=chart.x.log)
        return cls(width, height, across, up, left, right)

    def points(self, line: Line, values: Sequence[float | None] | None = None) -> list[tuple[float, float]]:
        pairs = zip(line.x, line.y if values is None else values, strict=True)
        return [
            (self.across(x), self.up(y))
            for x, y in pairs
            if known(x) and known(y) and self.across.holds(x) and self.up.holds(y)
        ]

    def stretches(self, line: Line) -> list[list[tuple[float, float]]]:
        """Points that are joined: not over a value that is missing."""
        parts: list[list[tuple[float, float]]] = [[]]
        for x, y in zip(line.x, line.y, strict=True):
            if known(x) and known(y) and self.across.holds(x) and self.up.holds(y):
                parts[-1].append((self.across(x), self.up(y)))
            elif parts[-1]:
                parts.append([])
        return [part for part in parts if part]


def curves(chart: Lines) -> Markup:
    """Each with its name at its end; on a phone the names stand below."""
    drawings = [_drawing(chart, *size, name=name) for name, size in SIZES.items()]
    names = [
        element("li", stroke(_ink(line, place)), element("bdi", line.label or line.name))
        for place, line in enumerate(chart.lines)
        if not line.thin
    ]
    return element("div", *drawings, element("ul", *names, class_="legend on-phone"), class_="drawn")


def stroke(own: Ink) -> Markup:
    """The stroke that a line is drawn with, beside its name."""
    line = {"x1": 0, "x2": 22, "y1": 4, "y2": 4, "style": f"stroke: {own.colour}"}
    drawn = element("line", **line, stroke_dasharray=STROKES.get(own.dash, ""))
    return element("svg", drawn, class_="stroke", viewBox="0 0 22 8", width=22, height=8, aria_hidden="true")


def _ink(line: Line, place: int) -> Ink:
    return line.ink or ink(place)


def _drawing(chart: Lines, width: int, height: int, *, name: str) -> Markup:
    plane = Plane.of(chart, width, height, names=name == "desk")
    parts = [_axes(plane, chart.x, chart.y), *_levels(plane, chart.levels)]
    parts += [_band(plane, line, _ink(line, place)) for place, line in enumerate(chart.lines)]
    parts += [_curve(plane, line, _ink(line, place)) for place, line in enumerate(chart.lines)]
    parts += _names(plane, chart.lines) if name == "desk" else []
    size: dict[str, object] = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    size |= {"role": "img", "aria_label": description(chart)}
    return element("svg", *parts, class_=f"chart on-{name}", **size)


def _axes(plane: Plane, x: Axis, y: Axis) -> Markup:
    """Lines across at round numbers; the name of what goes up stands above it."""
    bottom, right, parts = plane.height - BOTTOM, plane.width - plane.right, list[Markup]()
    for value in plane.up.ticks():
        at = plane.up(value)
        parts.append(element("line", class_="grid", x1=plane.left, x2=right, y1=at, y2=at))
        parts.append(element("text", tick_text(value, y), x=plane.left - 8, y=at + 4, text_anchor="end"))
    last = -float("inf")
    few = 1 < len(x.at) <= MOST_NAMED
    for value in x.at if few else plane.across.ticks():
        text, at = tick_text(value, x), plane.across(value)
        half = LETTER * len(text) / 2
        if at - half > last + 4 and at + half < plane.width:  # none over another, none cut
            parts.append(element("text", text, x=at, y=bottom + 18, text_anchor="middle"))
            last = at + half
    outline = f"M{plane.left} {TOP}V{bottom}H{right}"
    parts.append(element("path", class_="axis", fill="none", d=outline))
    middle = (plane.left + right) / 2
    parts.append(element("text", x.title, x=middle, y=plane.height - 8, text_anchor="middle"))
    parts.append(element("text", y.title, x=4, y=16))
    return Markup("").join(parts)


def _levels(plane: Plane, levels: Sequence[Level]) -> list[Markup]:
    """Named lines from side to side; names of close lines stand above one another."""
    heights, right = [plane.up(level.value) for level in levels], plane.width - plane.right
    named = set_apart([-height for height in heights], APART)
    parts = []
    for level, height, above in zip(levels, heights, named, strict=True):
        line = element("line", class_="level", x1=plane.left, x2=right, y1=height, y2=height)
        parts.append(line + element("text", level.name, x=right - 4, y=-above - 4, text_anchor="end"))
    return parts


def _band(plane: Plane, line: Line, own: Ink) -> Markup:
    if not line.low or not line.high or line.thin:
        return Markup("")
    low, high = plane.points(line, line.low), plane.points(line, line.high)
    if len(low) < 2:
        return Markup("")
    path = "M" + "L".join(f"{x} {y}" for x, y in [*high, *reversed(low)]) + "Z"
    return element("path", d=path, style=f"fill:{own.band}")


def _curve(plane: Plane, line: Line, own: Ink) -> Markup:
    points = plane.points(line)
    if not points:
        return Markup("")
    look = f"stroke:{own.colour}" + (";stroke-width:1;opacity:.5" if line.thin else "")
    path = "".join(f"M{'L'.join(f'{x} {y}' for x, y in part)}" for part in plane.stretches(line))
    joined = element("path", class_="curve", style=look, d=path, stroke_dasharray=STROKES.get(own.dash, ""))
    marks = [element("circle", cx=x, cy=y, r=2.5, style=f"fill:{own.colour}") for x, y in points]
    return (Markup("") if line.dots else joined) + Markup("").join([] if line.thin else marks)


def _names(plane: Plane, lines: Sequence[Line]) -> list[Markup]:
    """At the ends of their curves, from the top down, moved apart; the lowest stay inside."""
    ends = [
        (points[-1][1], line, _ink(line, place))
        for place, line in enumerate(lines)
        if not line.thin and (points := plane.points(line))
    ]
    ends.sort(key=lambda end: end[0])
    heights = set_apart([height for height, _, _ in ends], APART)
    over = max(0.0, heights[-1] - (plane.height - BOTTOM)) if heights else 0.0
    shown = []
    for height, (_, line, own) in zip(heights, ends, strict=True):
        sign = element("tspan", "●", style=f"fill:{own.colour}")
        place = {"x": plane.width - plane.right + 8, "y": round(height - over + 4, 2)}
        shown.append(element("text", sign, f" {_shortened(line.label or line.name)}", class_="name", **place))
    return shown


def _shortened(name: str) -> str:
    name = plain(name)
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[-half + 1 :]}"


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
    dashes = STROKES.get(part.ink.dash, "") if part.ink else ""
    line = {"stroke": "currentColor", "stroke_width": 1.5, "stroke_dasharray": dashes or None}
    parts = [element("path", d=path, fill="none", **line)]
    if ends := [at for at in points if at]:
        x, y = ends[-1]
        dot = element("circle", cx=x, cy=y, r=2.5, fill="currentColor")
        parts.append(element("text", "✗", x=x, y=y + 4) if part.broken else dot)
    look = {"width": SPARK, "height": FLAT, "viewBox": f"0 0 {SPARK} {FLAT}"}
    look |= {"style": f"color: {part.ink.colour}"} if part.ink else {}
    return element("svg", *parts, class_="spark", **look, role="img", aria_label=part.said)
