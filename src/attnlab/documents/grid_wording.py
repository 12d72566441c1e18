"""What is said of a grid: to whoever cannot see it, in the place of shades that nobody sees, by its key."""

from __future__ import annotations

from attnlab.documents.nodes import Emphasis, Grid, GridScale, Inline, parts_of
from attnlab.documents.numbers import short


def plain_title(title: Inline) -> str:
    """A title's words alone."""
    words = (plain_title(part.part) if isinstance(part, Emphasis) else str(part) for part in parts_of(title))
    return "".join(words)


def grid_sentence(grid: Grid) -> str:
    """Its own, of each: what it shows, how large it is and where its largest number stands."""
    numbers = [
        (value, row, column)
        for row, values in zip(grid.rows, grid.values, strict=True)
        for column, value in zip(grid.columns, values, strict=True)
        if value is not None
    ]
    size = f"{len(grid.rows)} rows against {len(grid.columns)} columns"
    name = plain_title(grid.title) or "Grid"
    if grid.key:
        counts = (f"{sum(v == value for v in _all(grid))} {word}" for value, word in grid.key)
        return f"{name}: {size}; {', '.join(counts)}."
    if not numbers or not grid.largest:
        return f"{name}: {size}; {nothing_sentence(grid)}"
    value, row, column = max(numbers, key=lambda found: abs(found[0]))
    return f"{name}: {size}; the largest is {short(value)} at {row}, {column}."


def nothing_sentence(grid: Grid) -> str:
    """In the place of shades that nobody would see."""
    if not grid.largest:
        return "Every number is 0."
    return f"Every number is at most {short(grid.largest)} in size: on this scale there is nothing to see."


def key_ends(scale: GridScale) -> tuple[str, ...]:
    """The numbers along a key, from its left to its right."""
    top = short(scale.top)
    return (f"−{top}", "0", top) if scale.signed else ("0", top)


def _all(grid: Grid) -> list[float | None]:
    return [value for row in grid.values for value in row]
