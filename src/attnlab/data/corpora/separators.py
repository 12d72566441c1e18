"""What separates the columns of a .csv file: commas, or what a file has in their place."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

Separator = Literal["auto", ",", ";", "tab", "|"]
SEPARATORS = {",": "commas", ";": "semicolons", "tab": "tabs", "|": "vertical bars"}
"""By what a person writes, and what they are called; of those that fit, the first is taken."""
LOOKED_AT = 50
"""Rows by which the separator is found."""


def character(separator: str) -> str:
    return "\t" if separator == "tab" else separator


def found_separator(lines: Iterator[str]) -> str:
    """The separator of a table, by its header and first rows: every row has as many columns as the header.

    A comma, unless the header has none or the rows contradict it. So a comma in a text, or one for a decimal
    point, is not taken for a separator where the columns are separated by something else.
    """
    first = list(islice(lines, 4 * LOOKED_AT))
    tables = {name: _rows(first, character(name)) for name in SEPARATORS}
    headed = [name for name, rows in tables.items() if rows and len(rows[0]) > 1]
    fitting = [name for name in headed if len({len(row) for row in tables[name]}) == 1]
    return next(iter([*fitting, *headed]), ",")


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    """The first rows; an empty one where quotation marks are not as they must be."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(lines, delimiter=separator, strict=True):
            if row:
                rows.append(row)
            if len(rows) > LOOKED_AT:
                break
    except csv.Error:
        rows.append([])
    return rows
