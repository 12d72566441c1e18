"""What every explanation is: a sentence, and tables, curves and grids that a terminal, a page and a notebook
show alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attnlab.documents.self_contained import PageSection, fragment, page
from attnlab.explain import drawing
from attnlab.runs.atomic import replace_bytes

Cell = str | int | float | None


@dataclass(frozen=True)
class Listing:
    """A table. A number in a cell is shown to three digits, None as a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def html(self) -> Markup:
        return drawing.table(self.columns, self.rows)


@dataclass(frozen=True)
class Curve:
    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Curves:
    """Lines over one axis."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    note: str = ""

    def html(self) -> Markup:
        return drawing.lines(
            [(curve.name, curve.x, curve.y) for curve in self.curves],
            x=self.x,
            y=self.y,
            log_x=self.log_x,
            log_y=self.log_y,
        )


@dataclass(frozen=True)
class Grid:
    """Numbers of rows against columns, as shades of their size."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    note: str = ""

    @property
    def top(self) -> float:
        return max((abs(value) for row in self.values for value in row), default=0.0) or 1.0

    @property
    def signed(self) -> bool:
        return any(value < 0 for row in self.values for value in row)

    def html(self) -> Markup:
        return drawing.grid(self.rows, self.columns, self.values, top=self.top)


Part = Listing | Curves | Grid


class Explanation:
    """Data that shows itself: printed by a command, saved as a page, drawn in a notebook."""

    kind: str
    """What is explained, for the page's head."""

    @property
    def summary(self) -> str:
        """The answer in a sentence or two."""
        raise NotImplementedError

    def parts(self) -> list[Part]:
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        raise NotImplementedError

    def sections(self) -> list[PageSection]:
        return [PageSection(part.title, part.html(), part.note) for part in self.parts()]

    def html(self) -> str:
        """A page of one file."""
        return page(self.kind, self.summary, self.sections())

    def save(self, file: str | Path) -> None:
        """Write the page, whole or not at all."""
        replace_bytes(Path(file), self.html().encode())

    def _repr_html_(self) -> str:
        return fragment(self.summary, self.sections())
