"""The study's own figures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attnlab.documents.nodes import (
    Axis,
    Figure,
    Inline,
    Line,
    Lines,
    Name,
    Node,
    Number,
    Table,
    TableColumn,
    TableRow,
)
from attnlab.documents.numbers import anything, known
from attnlab.documents.palette import ink
from attnlab.metrics.measures import is_share, title_of
from attnlab.studies.report.levels import levels
from attnlab.studies.report.study_results import StudyResults


def figures(study: StudyResults) -> list[Node]:
    given = [f for f in study.outcome.figures if any(s.get("x") for s in f.get("series") or [])]
    return [_figure(study, figure, f"figure-{place}") for place, figure in enumerate(given)]


def _figure(study: StudyResults, figure: Mapping[str, Any], anchor: str) -> Figure:
    others = [s["name"] for s in figure["series"] if study.arm(s["name"]) is None]
    lines = [_line(study, series, others) for series in figure["series"]]
    places = sorted({x for line in lines for x in line.x if x is not None})
    x = Axis(figure.get("x") or "", log=bool(figure.get("log_x")), at=places)
    unit = figure.get("y") or ""
    y = Axis(title_of(unit), log=bool(figure.get("log_y")), form="percent" if is_share(unit) else "plain")
    legend = [(Name(line.name, line.ink, study.sound(line.name)), line.label) for line in lines]
    return Figure(
        {"": [Lines(lines, x, y, levels=levels(study, unit))]},
        title=figure.get("title") or "Figure",
        note=figure.get("note") or "",
        anchor=anchor,
        alt=f"{figure.get('title', '')}: {figure.get('y', '')} against {figure.get('x', '')}",
        legend=legend,
    )


def _line(study: StudyResults, series: Mapping[str, Any], others: list[str]) -> Line:
    """What is no arm takes the colours that the arms left, dashed."""
    arm, name = study.arm(series["name"]), str(series["name"])
    own = arm.ink if arm else replace(ink(len(study.arms) + others.index(series["name"])), dash="dash")
    band = series.get("low"), series.get("high")
    return Line(name, series["x"], series["y"], *band, label=arm.label if arm else name, ink=own)


def tables(study: StudyResults) -> list[Node]:
    return [_table(study, table) for table in study.outcome.tables if table.get("rows")]


def _table(study: StudyResults, table: Mapping[str, Any]) -> Table:
    names = [str(name) for name in table.get("columns") or []]
    width = max(len(names), *(len(row) for row in table["rows"]))
    names += [""] * (width - len(names))
    numeric = [any(known(row[place]) for row in table["rows"] if place < len(row)) for place in range(width)]
    return Table(
        [TableColumn(name, right=right) for name, right in zip(names, numeric, strict=True)],
        [_row(study, row, names) for row in table["rows"]],
        title=table.get("title") or "",
        note=table.get("note") or "",
        look="wide" if width > 4 else "",
    )


def _row(study: StudyResults, row: list[Any], names: list[str]) -> TableRow:
    """A cell is as sound as the arms that its row and its column are about."""
    whole = all(study.sound(cell) for cell in row if isinstance(cell, str))
    cells = [*row, *[""] * (len(names) - len(row))]
    named = zip(cells, names, strict=True)
    return TableRow([_cell(cell, sound=whole and study.sound(name)) for cell, name in named], sound=whole)


def _cell(cell: Any, *, sound: bool) -> Inline:
    if known(cell):
        return Number(cell, form="general", sound=sound)
    text = cell if cell == "" else anything(cell)
    return text if sound or not text else Name(text, sound=False, tags=(("invalid", "invalid"),))
