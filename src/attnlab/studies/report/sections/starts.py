"""What the arms begin from: models that were there, and runs that the study trained first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.documents.numbers import anything, fixed, known
from attnlab.studies.report.number_text import exact
from attnlab.studies.report.study_results import StudyResults


def starts(study: StudyResults) -> dict[str, Any] | None:
    rows = [_row(start) for start in study.results.get("starts") or []]
    return {"rows": rows} if rows else None


def _row(start: Mapping[str, Any]) -> dict[str, Any]:
    config = start.get("config") or {}
    loss = (start.get("metrics") or {}).get("loss")
    corpus = (config.get("data") or {}).get("corpus") or {}
    return {
        "name": start["name"],
        "folder": start["folder"],
        "task": (config.get("task") or {}).get("kind", ""),
        "text": anything(corpus.get("path") or corpus.get("kind", "")),
        "tokens": exact(start.get("tokens"), "count"),
        "parameters": exact(start.get("parameters"), "count"),
        "loss": fixed(loss, 3) if known(loss) else "",
        "seconds": exact(start.get("seconds"), "seconds"),
        "unsound": ", ".join(start.get("unsound") or ()),
    }
