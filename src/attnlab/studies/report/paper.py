"""A report's figures and tables as single files, for a paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.documents import nodes as n
from attnlab.documents.latex import csv_table, latex_table, text_of
from attnlab.documents.nodes import Bars, DocumentPage, Figure, Forest, Heat, Lines, Node, Table
from attnlab.documents.print_drawings import (
    Drawing,
    as_pdf,
    as_svg,
    drawing_of,
    forest_drawing,
    has_points,
)
from attnlab.documents.print_maps import has_weights, map_drawing
from attnlab.runs.atomic import replace_bytes
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.report.page import report
from attnlab.studies.report.study_results import StudyResults


@dataclass(frozen=True)
class PaperFiles:
    """What was written; `screen_only` are the figures of a page that hold nothing to print."""

    folder: Path
    figures: tuple[str, ...]
    tables: tuple[str, ...]
    screen_only: tuple[str, ...]


def write_paper(outcome: StudyOutcome, folder: Path, *, pdf: bool = True) -> PaperFiles:
    """Every curve, histogram, forest and map of a report as SVG and PDF, every table as LaTeX and CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    figures, tables, screen_only, taken = [], [], list[str](), set[str]()
    for section, node in _nodes(report(StudyResults(outcome))):
        title = text_of(getattr(node, "title", "")) or section
        if isinstance(node, Figure):
            drawings = list(_drawings(node))
            screen_only += [] if drawings else [title]
        else:
            drawings = [("", forest_drawing(node))] if isinstance(node, Forest) else []
        for part, drawing in drawings:
            name = _name(f"{title} {part}", taken)
            replace_bytes(folder / f"{name}.svg", as_svg(drawing).encode())
            if pdf:
                replace_bytes(folder / f"{name}.pdf", as_pdf(drawing, title))
            figures.append(name)
        table = node.table if isinstance(node, Forest) else node
        if isinstance(table, Table):
            name = _name(f"{title} table" if isinstance(node, Forest) else title, taken)
            caption = text_of(table.caption) or text_of(table.title) or title
            replace_bytes(folder / f"{name}.tex", latex_table(table, caption, name).encode())
            replace_bytes(folder / f"{name}.csv", csv_table(table).encode())
            tables.append(name)
    return PaperFiles(folder, tuple(figures), tuple(tables), tuple(dict.fromkeys(screen_only)))


def _drawings(figure: Figure) -> Iterator[tuple[str, Drawing]]:
    """Each panel of each view, by what its switches and its arm are called."""
    for key, charts in figure.views.items():
        places = [int(place) for place in key.split(",")] if key else []
        options = [control.options[place] for control, place in zip(figure.controls, places, strict=False)]
        panels = list(zip(charts, _panels(figure, len(charts)), strict=True))
        for chart, panel in panels:
            if isinstance(chart, Lines | Bars) and has_points(chart):
                yield " ".join([*options, panel]), drawing_of(chart)
        maps = [(chart, panel) for chart, panel in panels if isinstance(chart, Heat) and has_weights(chart)]
        if maps:
            named = (f"{one.label} {option}" for one, option in zip(figure.controls, options, strict=False))
            yield " ".join(named), map_drawing(*zip(*maps, strict=True))


def _panels(figure: Figure, count: int) -> list[str]:
    names = [panel.text if panel is not None else "" for panel in figure.panels]
    return names if len(names) == count else [""] * count


def _nodes(page: DocumentPage) -> Iterator[tuple[str, Node]]:
    yield from _below([*page.lead, *page.nodes], page.name)


def _below(nodes: Sequence[Node], section: str) -> Iterator[tuple[str, Node]]:
    for node in nodes:
        if isinstance(node, n.Section):
            yield from _below(node.nodes, node.title)
        elif isinstance(node, n.Details):
            yield from _below(node.nodes, section)
        elif isinstance(node, n.Cards):
            for item in node.items:
                yield from _below(item.nodes, text_of(item.title) or section)
        elif isinstance(node, Figure | Forest | Table):
            yield section, node


def _name(title: str, taken: set[str]) -> str:
    """A file's name for a title, none given twice."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "figure"
    name = next(
        name for name in (words, *(f"{words}-{number}" for number in range(2, 10_000))) if name not in taken
    )
    taken.add(name)
    return name
