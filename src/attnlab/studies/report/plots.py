"""Plots as plotly reads them. Colours are CSS variables, so that one plot serves light, dark and paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from attnlab.config.visible_text import visible
from attnlab.documents.numbers import known
from attnlab.documents.palette import Ink

Figure = dict[str, Any]

FEW_POINTS = 6
MOST_LABELS = 24  # of tokens along an axis; beyond, every second or third is named


@dataclass(frozen=True)
class PlotControl:
    """A switch above a plot."""

    label: str
    options: Sequence[str]


@dataclass(frozen=True)
class Legend:
    name: str
    label: str
    ink: Ink
    sound: bool = True


@dataclass(frozen=True)
class Plot:
    """One figure of the page: panels side by side, and a view of them for each setting of the controls.

    `views` maps the options' places, joined by commas, to one plotly figure a panel.
    """

    id: str
    alt: str
    views: Mapping[str, Sequence[Figure]]
    controls: Sequence[PlotControl] = ()
    panels: Sequence[Legend | None] = (None,)
    legend: Sequence[Legend] = ()
    square: bool = False

    def data(self) -> dict[str, Any]:
        return {"views": self.views}


@dataclass(frozen=True)
class PlotLine:
    name: str
    label: str
    ink: Ink
    x: Sequence[Any]
    y: Sequence[Any]
    low: Sequence[Any] | None = None
    high: Sequence[Any] | None = None
    hover: Sequence[str] = ()


def text(value: Any) -> str:
    """Plotly reads a little HTML in every label: what others wrote must stay text."""
    return escape(visible(str(value)), quote=False)


def number(value: Any) -> float | None:
    """Six digits are more than a plot can show; JSON has no NaN."""
    return float(f"{value:.6g}") if known(value) and abs(value) != float("inf") else None


def axis(title: str, *, log: bool = False, integer: bool = False, at: Sequence[float] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {"title": {"text": text(title)}, "type": "log" if log else "linear"}
    if log and 1 < len(at) <= 10:
        found |= {"tickvals": at, "ticktext": [f"{x:,g}" for x in at]}
    elif log:
        found |= {"dtick": 1, "minor": {"ticks": "outside", "ticklen": 3}}
    return found | ({"rangemode": "tozero"} if integer and not log else {})


def lines(drawn: Sequence[PlotLine], x: dict[str, Any], y: dict[str, Any]) -> Figure:
    """Lines over their bands; a band is drawn only where it is known."""
    data = [trace for line in drawn for trace in (*_band(line), _line(line))]
    return {
        "data": sorted(data, key=lambda trace: trace["mode"] != "none"),
        "layout": {"xaxis": x, "yaxis": y},
    }


def _line(line: PlotLine) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(line.x) < 40 else "lines",
        "name": text(line.label),
        "legendgroup": line.name,
        "x": [number(x) for x in line.x],
        "y": [number(y) for y in line.y],
        "line": {"color": line.ink.colour, "width": 2, "dash": line.ink.dash},
        "marker": {"size": 7 if _few(line) else 5, "color": line.ink.colour},
        **({"error_y": _bars(line)} if _few(line) and _spread(line) else {}),
        "text": [text(words) for words in line.hover],
        "hovertemplate": "<b>%{fullData.name}</b><br>%{x:,}: %{y:,.4~g}"
        + ("<br>%{text}" if line.hover else "")
        + "<extra></extra>",
    }


def _few(line: PlotLine) -> bool:
    """Whether its points are so few that each is shown with a bar of its own; a band would suggest more."""
    return len(line.x) <= FEW_POINTS


def _spread(line: PlotLine) -> list[tuple[Any, Any, Any]]:
    """The points whose lowest and highest are known."""
    rows = zip(line.x, line.low or (), line.high or (), strict=False)
    return [(number(x), number(low), number(high)) for x, low, high in rows if known(low) and known(high)]


def _bars(line: PlotLine) -> dict[str, Any]:
    """From each point to its lowest and highest."""
    lows, highs = line.low or [None] * len(line.x), line.high or [None] * len(line.x)
    above = [high - y if known(high) and known(y) else None for y, high in zip(line.y, highs, strict=False)]
    below = [y - low if known(low) and known(y) else None for y, low in zip(line.y, lows, strict=False)]
    shape = {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": line.ink.colour}
    return shape | {"array": list(map(number, above)), "arrayminus": list(map(number, below))}


def _band(line: PlotLine) -> list[dict[str, Any]]:
    rows = _spread(line)
    if not rows or _few(line):
        return []
    x, low, high = (list(part) for part in zip(*rows, strict=True))
    return [
        {
            "type": "scatter",
            "mode": "none",
            "legendgroup": line.name,
            "x": x + x[::-1],
            "y": high + low[::-1],
            "fill": "toself",
            "fillcolor": line.ink.band,
            "hoverinfo": "skip",
        }
    ]


def bars(edges: Sequence[float], counts: Sequence[float], x: dict[str, Any], y: dict[str, Any]) -> Figure:
    """A histogram of given bins."""
    widths = [high - low for low, high in pairwise(edges)]
    return {
        "data": [
            {
                "type": "bar",
                "x": [low + width / 2 for low, width in zip(edges, widths, strict=False)],
                "y": list(counts),
                "width": widths,
                "text": [f"{low:g} to {high:g}" for low, high in pairwise(edges)],
                "textposition": "none",
                "marker": {"color": "var(--bar)", "line": {"color": "var(--page)", "width": 1}},
                "hovertemplate": "%{text}: %{y:,}<extra></extra>",
            }
        ],
        "layout": {"xaxis": x, "yaxis": y, "bargap": 0},
    }


def heatmap(weights: Sequence[Sequence[float | None]], tokens: Sequence[str], top: float) -> Figure:
    """Weights of queries (rows) on keys (columns)."""
    names = [text(f"{i + 1} {token}") for i, token in enumerate(tokens)]  # a word may stand twice
    every = -(-len(tokens) // MOST_LABELS)
    labels: dict[str, Any] = {
        "type": "category",
        "tickvals": names[::every],
        "ticktext": [text(_short(token)) for token in tokens[::every]],
        "showgrid": False,
    }
    return {
        "data": [
            {
                "type": "heatmap",
                "x": names,
                "y": names,
                "z": weights,
                "zmin": 0,
                "zmax": top,
                "xgap": 1 if len(tokens) <= 32 else 0,
                "ygap": 1 if len(tokens) <= 32 else 0,
                "colorscale": [[0, "var(--heat-0)"], [0.35, "var(--heat-1)"], [1, "var(--heat-2)"]],
                "colorbar": {
                    "thickness": 7,
                    "outlinewidth": 0,
                    "tickfont": {"size": 10},
                    "nticks": 4,
                    "xpad": 4,
                },
                "hovertemplate": "%{y} attends to %{x}: %{z:.3f}<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": labels | {"title": {"text": "keys"}, "tickangle": -90},
            "yaxis": labels | {"title": {"text": "queries"}, "autorange": "reversed"},
        },
    }


def _short(token: str) -> str:
    return token if len(token) <= 14 else token[:13] + "…"
