"""What the differences come to, in words, and what may not be concluded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.studies.report.study_results import Arm, StudyResults


def interpretation(study: StudyResults) -> dict[str, Any] | None:
    rows = [{"arm": arm, **_told(arm, study.verdict_of(arm))} for arm in study.arms if not arm.baseline]
    found = {
        "guide": study.card.get("How to read it", ""),
        "rows": [row for row in rows if row["words"]],
        "notes": study.facts.get("notes") or [],
    }
    return found if any(found.values()) else None


def _told(arm: Arm, comparison: Mapping[str, Any]) -> dict[str, Any]:
    if not arm.sound:
        failed = arm.findings("fail")
        words = " ".join(finding.meaning or finding.found for finding in failed) or arm.reason
        return {"verdict": "invalid", "words": words, "checks": [finding.check for finding in failed]}
    if arm.status in ("failed", "missing"):
        return {"verdict": arm.word, "words": arm.reason or arm.word, "checks": []}
    verdict = comparison.get("verdict") or arm.shortfall or "not compared"
    words = (comparison.get("words") or verdict).removeprefix(f"{verdict}: ")
    return {"verdict": verdict, "words": ". ".join(filter(None, [words, arm.reason])), "checks": []}
