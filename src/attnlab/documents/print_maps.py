"""Maps of weights for paper: squares as dark as their number, those of all arms on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attnlab.documents.nodes import Heat
from attnlab.documents.numbers import known
from attnlab.documents.palette import COLOURS
from attnlab.documents.print_drawings import FONT, GREY, LETTER, LIGHT, WIDTH, Drawing, Letters, Stroke

LONGEST_NAME = 14
"""Letters of a token that are written."""
LARGEST_CELL = 15.0
TITLE, BELOW, KEY = 12.0, 24.0, 22.0
"""Points above a map for its arm, below it for its columns, and for the key to its shades."""
SHADES, LINE = 5, 10.0
LEAST = 0.004
"""The share of a full shade below which nothing would be seen."""


def has_weights(chart: Heat) -> bool:
    """Whether there is anything to draw."""
    return any(known(weight) for row in chart.weights for weight in row)


def map_drawing(charts: Sequence[Heat], names: Sequence[str]) -> Drawing:
    """Maps one below the other, each with the name of its arm, and one key to the shades of all."""
    marks: list[Stroke | Letters] = []
    height = 0.0
    for chart, name in zip(charts, names, strict=True):
        marks += [Letters(0, height + FONT, name)]
        cell = _cell(chart)
        marks += _map(chart, _left(chart), height + TITLE, cell)
        height += TITLE + cell * len(chart.tokens) + BELOW + _key_height(chart)
    marks += _key(max((chart.top for chart in charts), default=1.0), height + 4)
    return Drawing(height + KEY, marks)


def _left(chart: Heat) -> float:
    return 6 + LETTER * max((len(_row_name(chart, row)) for row in range(len(chart.tokens))), default=1)


def _cell(chart: Heat) -> float:
    return min((WIDTH - _left(chart) - 4) / max(len(chart.column_names), 1), LARGEST_CELL)


def _key_height(chart: Heat) -> float:
    """Room for the names of columns that are not those of the rows."""
    return LINE * len(_lines_of_keys(chart))


def _lines_of_keys(chart: Heat) -> list[str]:
    """Which token each column is, as many a line as there is room for."""
    lines = [""]
    for place, token in enumerate(chart.keys):
        name = f"{place} {token[:LONGEST_NAME]}"
        if len(lines[-1]) + len(name) + 2 > WIDTH / LETTER:
            lines.append("")
        lines[-1] += f"  {name}" if lines[-1] else name
    return lines if chart.keys else []


def _row_name(chart: Heat, row: int) -> str:
    """A token with its number, which is all that a column has room for."""
    return f"{chart.tokens[row][:LONGEST_NAME]} {row}"


def _map(chart: Heat, left: float, top: float, cell: float) -> Iterator[Stroke | Letters]:
    for row, weights in enumerate(chart.weights):
        for column, weight in enumerate(weights):
            x, y = left + cell * column, top + cell * row
            if weight is None:
                yield Stroke([(x, y + cell), (x + cell, y)], LIGHT, 0.4)  # forbidden, which is not 0
            elif known(weight) and weight >= LEAST * chart.top:
                yield _square(x, y, cell, min(1.0, weight / chart.top))
    columns = len(chart.column_names)
    right, bottom = left + cell * columns, top + cell * len(chart.tokens)
    frame = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    yield Stroke(frame, GREY)
    every = max(1, math.ceil((FONT + 1) / max(cell, 0.1)))
    for place in range(0, len(chart.tokens), every):
        middle = cell * (place + 0.5)
        yield Letters(left - 3, top + middle + 3, _row_name(chart, place), "end")
    for place in range(0, columns, every):
        middle = cell * (place + 0.5)
        if not place % (2 * every) or cell > 2 * LETTER + 2:
            yield Letters(left + middle, bottom + 9, str(place), "middle")
    yield Letters((left + right) / 2, bottom + 18, f"{chart.columns} (rows: {chart.rows})", "middle", GREY)
    for number, line in enumerate(_lines_of_keys(chart)):
        yield Letters(0, bottom + 18 + LINE * (number + 1), line, "start", GREY)


def _square(x: float, y: float, cell: float, shade: float) -> Stroke:
    corners = [(x, y), (x + cell, y), (x + cell, y + cell), (x, y + cell)]
    return Stroke([(round(a, 2), round(b, 2)) for a, b in corners], COLOURS[0][0], filled=round(shade, 3))


def _key(top: float, y: float) -> Iterator[Stroke | Letters]:
    """Shades from nothing to the largest weight."""
    yield Letters(0, y + 8, "0")
    for number in range(SHADES):
        yield _square(8 + 10 * number, y, 10, (number + 1) / SHADES)
    yield Letters(8 + 10 * SHADES + 4, y + 8, f"{top:.3g}")
