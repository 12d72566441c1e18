"""Where the numbers come from, and how to get them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.documents.numbers import anything
from attnlab.studies.report.sections.configs import flat
from attnlab.studies.report.study_results import StudyResults

TITLES = {"machine": "Machine", "versions": "Versions", "fingerprints": "Fingerprints"}


def origin(study: StudyResults) -> dict[str, Any] | None:
    lists = [(title, _rows(study.part(part))) for part, title in TITLES.items()]
    found = {
        "again": study.results.get("again") or "",
        "date": study.results.get("date") or "",
        "lists": [(title, rows) for title, rows in lists if rows],
    }
    return found if any(found.values()) else None


def _rows(facts: Any) -> list[tuple[str, str]]:
    rows = flat(facts) if isinstance(facts, Mapping) else [("", facts)]
    return [(name.replace("_", " "), anything(value)) for name, value in rows]
