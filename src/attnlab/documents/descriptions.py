"""Charts in a sentence, for who does not see them: each picture has its own."""

from __future__ import annotations

from attnlab.documents.nodes import Axis, Bars, Chart, Heat, Lines
from attnlab.documents.numbers import fixed, known, power, short

MOST = 12
"""Lines that are told one by one; more are counted."""


def description(chart: Chart) -> str:
    if isinstance(chart, Lines):
        return _lines(chart)
    return _bars(chart) if isinstance(chart, Bars) else _heat(chart)


def tick_text(value: float, axis: Axis) -> str:
    """A number along an axis: a power of ten where it is logarithmic, a percentage of shares."""
    if axis.form == "percent":
        return f"{100 * value:.3g}%".replace("-", "−")
    return power(value) if axis.log else short(float(value))


def _lines(chart: Lines) -> str:
    """Where each line begins and ends."""
    said = []
    for line in (line for line in chart.lines if not line.thin):
        values = [y for x, y in zip(line.x, line.y, strict=True) if known(x) and known(y)]
        name = line.label or line.name
        if len(values) == 1 or (values and line.dots):
            said.append(f"{name} {tick_text(sum(values) / len(values), chart.y)}")
        elif values:
            said.append(f"{name} {tick_text(values[0], chart.y)} to {tick_text(values[-1], chart.y)}")
    more = [f"and {len(said) - MOST} more"] if len(said) > MOST else []
    told = [*said[:MOST], *more, *(level.name for level in chart.levels)]
    return f"{chart.y.title} by {chart.x.title}: {'; '.join(told)}."


def _bars(chart: Bars) -> str:
    most = max(range(len(chart.counts)), key=chart.counts.__getitem__, default=0)
    if not chart.counts:
        return f"{chart.y.title} by {chart.x.title}: nothing."
    low, high = (short(float(chart.edges[most + i])) for i in (0, 1))
    largest = f"the most, {fixed(chart.counts[most], 0)}, from {low} to {high}"
    return f"{chart.y.title} by {chart.x.title}: {largest}."


def _heat(chart: Heat) -> str:
    cells = [
        (weight, chart.tokens[i], chart.column_names[j])
        for i, row in enumerate(chart.weights)
        for j, weight in enumerate(row)
        if known(weight)
    ]
    columns = f"{len(chart.keys)} {chart.columns}" if chart.keys else chart.columns
    size = f"{len(chart.tokens)} {chart.rows} by {columns}"
    if not cells:
        return f"{size}: no numbers."
    weight, row, column = max(cells, key=lambda cell: cell[0])
    return f"{size}; the largest: {row} {chart.verb} {column}, {short(float(weight))}."
