"""What the differences come to, in words, and what may not be concluded."""

from __future__ import annotations

from typing import Any

from attnlab.evaluation.comparison import Verdict
from attnlab.runs.findings import Finding
from attnlab.studies.outcome import ArmState
from attnlab.studies.report.study_results import Arm, Mark, StudyResults
from attnlab.studies.wording import because_phrase, inequalities_sentence, verdict_phrase


def interpretation(study: StudyResults) -> dict[str, Any] | None:
    rows = [_row(study, arm) for arm in study.arms if not arm.baseline]
    found = {
        "guide": study.card.get("How to read it", ""),
        "rows": [row for row in rows if row["words"]],
        "notes": [str(note) for note in study.outcome.notes],
    }
    return found if any(found.values()) else None


def _row(study: StudyResults, arm: Arm) -> dict[str, Any]:
    comparison, failed = study.comparison_of(arm), list[Finding]()
    if not arm.sound:
        mark, failed = Mark("invalid", Verdict.INVALID.value), arm.findings("fail")
        words = " ".join(finding.meaning or finding.found for finding in failed) or arm.reason
    elif arm.status in (ArmState.FAILED, ArmState.MISSING):
        mark, words = Mark(arm.status.value, arm.word), arm.reason or arm.word
    elif comparison is None:
        mark = Mark("other", arm.shortfall or "not compared")
        words = ". ".join(filter(None, [mark.words, arm.reason]))
    else:
        mark = Mark(comparison.verdict.value, verdict_phrase(comparison))
        unequal = inequalities_sentence(comparison.unequal, comparison.arm, comparison.baseline)
        words = ". ".join(filter(None, [because_phrase(comparison), unequal, arm.reason]))
    return {"arm": arm, "mark": mark, "words": words, "checks": [finding.check for finding in failed]}
