"""Results that show themselves as a short table: as HTML in a notebook, as text elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO

from attnlab.config.visible_text import visible

WIDTH = 80


@dataclass(frozen=True)
class ShortTable:
    """A sentence, and rows under it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        from rich.table import Column, Table
        from rich.text import Text

        table = Table(*(Column(Text(visible(name))) for name in self.columns))
        for row in self.rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        from attnlab.runs.display import PlainConsole

        console = PlainConsole(file=StringIO(), width=WIDTH, no_color=True)
        console.print(self.title, markup=False, highlight=False)
        console.print(table)
        assert isinstance(console.file, StringIO)
        return console.file.getvalue().rstrip("\n")

    def html(self) -> str:
        head = "".join(f"<th>{escape(visible(name))}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(visible(cell))}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        title = f"<p>{escape(visible(self.title))}</p>"
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Tabular(ABC):
    """What shows itself by its table."""

    @abstractmethod
    def table(self) -> ShortTable:
        """What a person looks at first."""

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def number(value: float) -> str:
    """Four digits after the point of small numbers, one of large ones, none of counts."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4f}" if abs(value) < 100 else f"{value:,.1f}"
