"""What was expected, before anything was seen."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.study_results import StudyResults


def hypothesis(study: StudyResults) -> dict[str, Any] | None:
    told = [study.facts.get("hypothesis") or "", study.card.get("Hypothesis", "")]
    return {"told": list(dict.fromkeys(filter(None, told)))} if any(told) else None
