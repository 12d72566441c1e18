"""What was expected, before anything was seen."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.study import Study


def hypothesis(study: Study) -> dict[str, Any] | None:
    expected = study.facts.get("hypothesis")
    return {"expected": expected} if expected else None
