"""The study's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.documents.numbers import anything, known
from attnlab.studies.report.study_results import StudyResults


def tables(study: StudyResults) -> dict[str, Any] | None:
    found = [_table(study, table) for table in study.results.get("tables") or [] if table.get("rows")]
    return {"tables": found} if found else None


def _table(study: StudyResults, table: Mapping[str, Any]) -> dict[str, Any]:
    columns = [str(name) for name in table.get("columns") or []]
    sound = [study.sound(name) for name in columns]
    return {
        "title": table.get("title") or "",
        "note": table.get("note") or "",
        "columns": columns,
        "numeric": [any(known(row[i]) for row in table["rows"] if i < len(row)) for i in range(len(columns))],
        "rows": [_row(study, row, sound) for row in table["rows"]],
    }


def _row(study: StudyResults, row: list[Any], columns_sound: list[bool]) -> list[dict[str, Any]]:
    """A cell is as sound as the arms that its row and its column are about."""
    whole = all(study.sound(cell) for cell in row if isinstance(cell, str))
    sound = [*columns_sound, *[True] * len(row)]
    return [
        {"value": cell if known(cell) else None, "text": anything(cell), "sound": whole and good}
        for cell, good in zip(row, sound, strict=False)
    ]
