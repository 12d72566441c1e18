"""What the differences come to, in words, and what may not be concluded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.studies.report.numbers import column
from attnlab.studies.report.study import Arm, Study


def interpretation(study: Study) -> dict[str, Any] | None:
    rows = [(arm, study.verdict_of(arm)) for arm in study.arms if not arm.baseline]
    estimates = [{**row, "value": row.get("difference"), "n": row.get("seeds")} for _, row in rows]
    figures = column(estimates, "signed")
    told = [
        {"arm": arm, "figure": figure, **_told(arm, row)}
        for (arm, row), figure in zip(rows, figures, strict=True)
    ]
    notes = study.facts.get("notes") or []
    found = [row for row in told if row["words"]]
    return {"rows": found, "notes": notes} if found or notes else None


def _told(arm: Arm, comparison: Mapping[str, Any]) -> dict[str, Any]:
    if arm.status == "invalid":
        failed = arm.findings("fail")
        words = " ".join(f.get("meaning") or f.get("found") or "" for f in failed) or arm.reason
        return {"verdict": "invalid", "words": words, "checks": [f["check"] for f in failed]}
    if arm.status in ("failed", "missing"):
        return {"verdict": arm.word, "words": arm.reason or arm.word, "checks": []}
    verdict = comparison.get("verdict") or ""
    return {"verdict": verdict, "words": comparison.get("words") or verdict, "checks": []}
