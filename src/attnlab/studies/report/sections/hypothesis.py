"""What was expected, before anything was seen."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.study_results import StudyResults


def hypothesis(study: StudyResults) -> dict[str, Any] | None:
    given = [study.facts.hypothesis, study.card.get("Hypothesis", "")]
    told = {" ".join(text.split()).casefold(): text for text in given if text}  # a card often repeats it
    return {"told": list(told.values())} if told else None
