"""Figures as plotly reads them. Colours are CSS variables, so that one serves light, dark and paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from itertools import pairwise
from typing import Any

from attnlab.config.visible_text import visible
from attnlab.documents.descriptions import description
from attnlab.documents.nodes import Axis, Bars, Chart, Figure, Heat, Line, Lines
from attnlab.documents.numbers import known, power
from attnlab.documents.palette import COLOURS, Ink, ink, ramp
from attnlab.documents.scale import Scale, set_apart

Plotly = dict[str, Any]
"""What plotly draws: traces as `data`, and their `layout`."""

FEW_POINTS = 6
MOST_LABELS = 24  # of tokens along an axis; beyond, every second or third is named
HEIGHT, APART = 240, 15
"""Of the area that curves are drawn in, on a phone, and between two names, in pixels."""


@cache
def source() -> str:
    """Plotly's own script, from its package."""
    from plotly.offline import get_plotlyjs

    script: str = get_plotlyjs()
    return script


def views(figure: Figure) -> dict[str, list[Plotly]]:
    """Every view of a figure, a chart a panel."""
    return {key: list(map(drawn, charts)) for key, charts in figure.views.items()}


def drawn(chart: Chart) -> Plotly:
    """A chart with the sentence that stands for it."""
    return _drawn(chart) | {"alt": description(chart)}


def _drawn(chart: Chart) -> Plotly:
    if isinstance(chart, Lines):
        return lines(chart)
    return histogram(chart) if isinstance(chart, Bars) else heatmap(chart)


def label(value: object) -> str:
    """Plotly reads a little HTML in every label: what others wrote must stay text."""
    return escape(visible(str(value)), quote=False)


def number(value: Any) -> float | None:
    """Six digits are more than a plot can show; JSON has no NaN."""
    return float(f"{value:.6g}") if known(value) and abs(value) != float("inf") else None


def axis(given: Axis, values: Iterable[float | None] = ()) -> Plotly:
    """Its title stands above it where it is the vertical one (page.js); powers of ten are written as such."""
    layout: Plotly = {"title": {"text": label(given.title)}, "type": "log" if given.log else "linear"}
    if given.span:
        layout["range"] = list(given.span)
    if given.log:
        few = 1 < len(given.at) <= 10
        ticks = list(given.at) if few else Scale(values, 0, 1, log=True).ticks()
        layout |= {"tickvals": ticks, "ticktext": [f"{x:,g}" if few else power(x) for x in ticks]}
    if given.form == "percent":
        layout["tickformat"] = ",.0%"
    return layout | ({"rangemode": "tozero"} if given.from_zero and not given.log else {})


# ---------------------------------------------------------------- lines
def lines(chart: Lines) -> Plotly:
    """Lines over their bands, and what they are compared with; a band is drawn only where it is known."""
    traces = [
        trace
        for place, line in enumerate(chart.lines)
        for trace in (*_band(line, _ink(line, place)), _line(line, _ink(line, place), chart))
    ]
    traces.sort(key=lambda trace: trace["mode"] != "none")
    y = [*(y for line in chart.lines for y in line.y), *(level.value for level in chart.levels)]
    x = [x for line in chart.lines for x in line.x]
    layout: Plotly = {"xaxis": axis(chart.x, x), "yaxis": axis(chart.y, y)}
    shapes, notes = _levels(chart)
    if chart.diagonal:
        shapes.append(_diagonal([*x, *y]))
    notes += _names(chart)
    layout |= {"shapes": shapes} if shapes else {}
    return {"data": traces, "layout": layout | ({"annotations": notes} if notes else {})}


def _ink(line: Line, place: int) -> Ink:
    return line.ink or ink(place)


def _line(line: Line, own: Ink, chart: Lines) -> Plotly:
    extra = "<br>%{customdata}" if line.hover else ""
    x, y = (",.1%" if side.form == "percent" else wanted for side, wanted in _forms(chart))
    mode = "markers" if line.dots else "lines" if line.thin or len(line.x) >= 40 else "lines+markers"
    mode += "+text" if line.dots and len(line.x) == 1 else ""  # a point has its name beside it
    bars = _few(line) and not line.thin
    return {
        "type": "scatter",
        "mode": mode,
        "name": label(line.label or line.name),
        "legendgroup": line.name,
        "x": list(map(number, line.x)),
        "y": list(map(number, line.y)),
        "line": {"color": own.colour, "width": 1 if line.thin else 2, "dash": own.dash},
        "marker": {"size": 7 if bars else 5, "color": own.colour},
        **({"opacity": 0.5, "meta": {"opacity": 0.5}} if line.thin else {}),
        **({"error_y": _bars(line.y, line.low, line.high, own)} if bars and _spread(line) else {}),
        **({"error_x": _bars(line.x, line.x_low, line.x_high, own)} if line.x_low else {}),
        "customdata": list(map(label, line.hover)),
        **({"text": [label(line.label or line.name)]} if mode.endswith("text") else {}),
        "textposition": _name_side(line, chart),
        "hovertemplate": f"<b>%{{fullData.name}}</b><br>%{{x:{x}}}: %{{y:{y}}}{extra}<extra></extra>",
    }


def _name_side(line: Line, chart: Lines) -> str:
    """Where a point has its name: into the figure, not over its edge."""
    places = [x for other in chart.lines for x in other.x if x is not None]
    own = [x for x in line.x if x is not None]
    return "top left" if own and own[0] > (min(places) + max(places)) / 2 else "top right"


def _forms(chart: Lines) -> tuple[tuple[Axis, str], tuple[Axis, str]]:
    return (chart.x, ",.4~g" if chart.diagonal else ","), (chart.y, ",.4~g")


def _few(line: Line) -> bool:
    """Whether its points are so few that each is shown with a bar of its own; a band would suggest more."""
    return len(line.x) <= FEW_POINTS


def _spread(line: Line) -> list[tuple[float | None, ...]]:
    """The points whose lowest and highest are known."""
    rows = zip(line.x, line.low or (), line.high or (), strict=False)
    return [tuple(map(number, row)) for row in rows if known(row[1]) and known(row[2])]


Numbers = Sequence[float | None]


def _bars(values: Numbers, low: Numbers | None, high: Numbers | None, own: Ink) -> Plotly:
    """From each point to its lowest and highest."""

    def apart(ends: Numbers | None, sign: int) -> list[float | None]:
        pairs = zip(values, ends or [None] * len(values), strict=False)
        return [number(sign * (end - value)) if known(end) and known(value) else None for value, end in pairs]

    shape = {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": own.colour}
    return shape | {"array": apart(high, 1), "arrayminus": apart(low, -1)}


def _band(line: Line, own: Ink) -> list[Plotly]:
    rows = _spread(line)
    if not rows or _few(line) or line.thin:
        return []
    x, low, high = (list(part) for part in zip(*rows, strict=True))
    shape = {"type": "scatter", "mode": "none", "legendgroup": line.name, "hoverinfo": "skip"}
    return [shape | {"x": x + x[::-1], "y": high + low[::-1], "fill": "toself", "fillcolor": own.band}]


def _levels(chart: Lines) -> tuple[list[Plotly], list[Plotly]]:
    """Named dashed lines from side to side; names of close lines stand above one another."""
    look = {"color": "var(--muted)", "width": 1.5, "dash": "dash"}
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "layer": "below", "line": look}
    beside = {"xref": "paper", "x": 1, "xanchor": "right", "yanchor": "bottom", "showarrow": False}
    values = [level.value for level in chart.levels]
    shapes = [across | {"y0": number(value), "y1": number(value)} for value in values]
    notes = [
        beside | {"text": label(level.name)} | place
        for level, place in zip(chart.levels, _apart(chart, values), strict=True)
    ]
    return shapes, notes


def _apart(chart: Lines, values: Sequence[float]) -> list[Plotly]:
    """Where names of these heights stand, each as far above its own as it must."""
    drawn = [*(y for line in chart.lines for y in line.y), *(level.value for level in chart.levels)]
    heights = [Scale(drawn, 0, HEIGHT, log=chart.y.log)(value) for value in values]
    shifts = [moved - own for moved, own in zip(set_apart(heights, APART), heights, strict=True)]
    places = [math.log10(value) if chart.y.log else value for value in values]  # as plotly has notes
    return [
        {"y": number(place), **({"yshift": round(shift, 1)} if shift else {})}
        for place, shift in zip(places, shifts, strict=True)
    ]


def _diagonal(values: Sequence[float | None]) -> Plotly:
    finite = [value for value in map(number, values) if value is not None] or [0.0, 1.0]
    look = {"color": "var(--muted)", "width": 1, "dash": "dash"}
    ends = {"x0": min(finite), "y0": min(finite), "x1": max(finite), "y1": max(finite)}
    return {"type": "line", "layer": "below", "line": look} | ends


def _names(chart: Lines) -> list[Plotly]:
    """Past the last colour a legend is no help: names stand at the ends of lines, none over another."""
    ends = {
        line.name: (line, place, y)
        for place, line in enumerate(chart.lines)
        if not line.dots and (y := next((y for y in reversed(line.y) if known(y)), None)) is not None
    }
    if len(ends) <= len(COLOURS) or chart.y.log:
        return []
    beside = {"xref": "paper", "x": 1.01, "xanchor": "left", "showarrow": False, "name": "end"}
    places = _apart(chart, [y for _, _, y in ends.values()])
    return [
        beside
        | place
        | {"text": label(line.label or line.name), "font": {"color": _ink(line, number_of).colour}}
        for (line, number_of, _), place in zip(ends.values(), places, strict=True)
    ]


# ---------------------------------------------------------------- bars and weights
def histogram(chart: Bars) -> Plotly:
    """Bins of given edges."""
    edges = list(pairwise(chart.edges))
    trace = {
        "type": "bar",
        "x": [(low + high) / 2 for low, high in edges],
        "y": list(chart.counts),
        "width": [high - low for low, high in edges],
        "text": [f"{low:g} to {high:g}" for low, high in edges],
        "textposition": "none",
        "marker": {"color": "var(--bar)", "line": {"color": "var(--page)", "width": 1}},
        "hovertemplate": "%{text}: %{y:,}<extra></extra>",
    }
    return {"data": [trace], "layout": {"xaxis": axis(chart.x), "yaxis": axis(chart.y), "bargap": 0}}


def heatmap(chart: Heat) -> Plotly:
    """Weights of rows on columns."""
    rows, columns = numbered(chart.tokens), numbered(chart.column_names)
    gap = 1 if max(len(rows), len(columns)) <= 32 else 0
    trace = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": chart.weights,
        "zmin": 0,
        "zmax": chart.top,
        "xgap": gap,
        "ygap": gap,
        "colorscale": [list(stop) for stop in ramp()],
        "colorbar": {"thickness": 8, "outlinewidth": 0, "nticks": 4, "xpad": 4},
        "hovertemplate": f"%{{y}} {label(chart.verb)} %{{x}}: %{{z:.3f}}<extra></extra>",
    }
    layout: Plotly = {
        "xaxis": categories(chart.column_names) | {"title": {"text": label(chart.columns)}, "tickangle": -90},
        "yaxis": categories(chart.tokens) | {"title": {"text": label(chart.rows)}, "autorange": "reversed"},
    }
    empty = [(x, y) for y, row in enumerate(chart.weights) for x, weight in enumerate(row) if weight is None]
    if empty:
        strokes = "".join(f"M{x - 0.5},{y + 0.5}L{x + 0.5},{y - 0.5}" for x, y in empty)
        look = {"color": "var(--rule-strong)", "width": 1}
        layout["shapes"] = [{"type": "path", "path": strokes, "line": look}]
    return {"data": [trace], "layout": layout}


def numbered(tokens: Sequence[str]) -> list[str]:
    """Tokens by their place too: a word may stand twice."""
    return [label(f"{i} {token}") for i, token in enumerate(tokens)]


def categories(tokens: Sequence[str]) -> Plotly:
    """An axis of tokens, of which as many are named as there is room for."""
    every = -(-len(tokens) // MOST_LABELS)
    return {
        "type": "category",
        "tickvals": numbered(tokens)[::every],
        "ticktext": [label(_short(token)) for token in tokens[::every]],
        "showgrid": False,
    }


def _short(token: str) -> str:
    return token if len(token) <= 14 else token[:13] + "…"
