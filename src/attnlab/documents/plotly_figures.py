"""Figures as plotly reads them. Colours are CSS variables, so that one serves light, dark and paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from itertools import pairwise
from typing import Any

from attnlab.config.visible_text import visible
from attnlab.documents.nodes import Axis, Bars, Chart, Figure, Heat, Line, Lines
from attnlab.documents.numbers import known
from attnlab.documents.palette import Ink, ink, ramp

Plotly = dict[str, Any]
"""What plotly draws: traces as `data`, and their `layout`."""

FEW_POINTS = 6
MOST_LABELS = 24  # of tokens along an axis; beyond, every second or third is named


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
    if isinstance(chart, Lines):
        return lines(chart)
    return histogram(chart) if isinstance(chart, Bars) else heatmap(chart)


def label(value: object) -> str:
    """Plotly reads a little HTML in every label: what others wrote must stay text."""
    return escape(visible(str(value)), quote=False)


def number(value: Any) -> float | None:
    """Six digits are more than a plot can show; JSON has no NaN."""
    return float(f"{value:.6g}") if known(value) and abs(value) != float("inf") else None


def axis(given: Axis) -> Plotly:
    layout: Plotly = {"title": {"text": label(given.title)}, "type": "log" if given.log else "linear"}
    if given.span:
        layout["range"] = list(given.span)
    if given.log and 1 < len(given.at) <= 10:
        layout |= {"tickvals": list(given.at), "ticktext": [f"{x:,g}" for x in given.at]}
    elif given.log:
        layout |= {"dtick": 1, "minor": {"ticks": "outside", "ticklen": 3}}
    return layout | ({"rangemode": "tozero"} if given.from_zero and not given.log else {})


def lines(chart: Lines) -> Plotly:
    """Lines over their bands; a band is drawn only where it is known."""
    traces = [
        trace
        for place, line in enumerate(chart.lines)
        for trace in (*_band(line, _ink(line, place)), _line(line, _ink(line, place)))
    ]
    traces.sort(key=lambda trace: trace["mode"] != "none")
    return {"data": traces, "layout": {"xaxis": axis(chart.x), "yaxis": axis(chart.y)}}


def _ink(line: Line, place: int) -> Ink:
    return line.ink or ink(place)


def _line(line: Line, own: Ink) -> Plotly:
    extra = "<br>%{text}" if line.hover else ""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(line.x) < 40 else "lines",
        "name": label(line.label or line.name),
        "legendgroup": line.name,
        "x": list(map(number, line.x)),
        "y": list(map(number, line.y)),
        "line": {"color": own.colour, "width": 2, "dash": own.dash},
        "marker": {"size": 7 if _few(line) else 5, "color": own.colour},
        **({"error_y": _bars(line, own)} if _few(line) and _spread(line) else {}),
        "text": list(map(label, line.hover)),
        "hovertemplate": f"<b>%{{fullData.name}}</b><br>%{{x:,}}: %{{y:,.4~g}}{extra}<extra></extra>",
    }


def _few(line: Line) -> bool:
    """Whether its points are so few that each is shown with a bar of its own; a band would suggest more."""
    return len(line.x) <= FEW_POINTS


def _spread(line: Line) -> list[tuple[float | None, ...]]:
    """The points whose lowest and highest are known."""
    rows = zip(line.x, line.low or (), line.high or (), strict=False)
    return [tuple(map(number, row)) for row in rows if known(row[1]) and known(row[2])]


def _bars(line: Line, own: Ink) -> Plotly:
    """From each point to its lowest and highest."""

    def apart(ends: Sequence[float | None] | None, sign: int) -> list[float | None]:
        pairs = zip(line.y, ends or [None] * len(line.y), strict=False)
        return [number(sign * (end - y)) if known(end) and known(y) else None for y, end in pairs]

    shape = {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": own.colour}
    return shape | {"array": apart(line.high, 1), "arrayminus": apart(line.low, -1)}


def _band(line: Line, own: Ink) -> list[Plotly]:
    rows = _spread(line)
    if not rows or _few(line):
        return []
    x, low, high = (list(part) for part in zip(*rows, strict=True))
    shape = {"type": "scatter", "mode": "none", "legendgroup": line.name, "hoverinfo": "skip"}
    return [shape | {"x": x + x[::-1], "y": high + low[::-1], "fill": "toself", "fillcolor": own.band}]


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
    """Weights of queries (rows) on keys (columns)."""
    names = [label(f"{i + 1} {token}") for i, token in enumerate(chart.tokens)]  # a word may stand twice
    every = -(-len(names) // MOST_LABELS)
    gap = 1 if len(names) <= 32 else 0
    labels: Plotly = {
        "type": "category",
        "tickvals": names[::every],
        "ticktext": [label(_short(token)) for token in chart.tokens[::every]],
        "showgrid": False,
    }
    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": chart.weights,
        "zmin": 0,
        "zmax": chart.top,
        "xgap": gap,
        "ygap": gap,
        "colorscale": [list(stop) for stop in ramp()],
        "colorbar": {"thickness": 7, "outlinewidth": 0, "tickfont": {"size": 10}, "nticks": 4, "xpad": 4},
        "hovertemplate": "%{y} attends to %{x}: %{z:.3f}<extra></extra>",
    }
    layout = {
        "xaxis": labels | {"title": {"text": "keys"}, "tickangle": -90},
        "yaxis": labels | {"title": {"text": "queries"}, "autorange": "reversed"},
    }
    return {"data": [trace], "layout": layout}


def _short(token: str) -> str:
    return token if len(token) <= 14 else token[:13] + "…"
