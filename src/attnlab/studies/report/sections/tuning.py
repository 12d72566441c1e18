"""The grid of learning rates, tuned with equal effort for every arm."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.number_text import column
from attnlab.studies.report.study_results import StudyResults


def tuning(study: StudyResults) -> dict[str, Any] | None:
    tried = study.facts.get("tuning") or []
    if not tried:
        return None
    rates = sorted({row["learning_rate"] for row in tried})
    found = {(row["arm"], row["learning_rate"]): row for row in tried}
    losses = column([{"value": row.get("loss")} for row in tried])
    shown = {(row["arm"], row["learning_rate"]): loss for row, loss in zip(tried, losses, strict=True)}
    arms = [arm for arm in study.arms if any(row["arm"] == arm.name for row in tried)]
    return {
        "rates": [f"{rate:g}" for rate in rates],
        "rows": [
            (arm, [_cell(shown.get((arm.name, r)), found.get((arm.name, r))) for r in rates]) for arm in arms
        ],
    }


def _cell(loss: Any, row: dict[str, Any] | None) -> dict[str, Any]:
    return {"loss": loss, "chosen": bool(row and row.get("chosen"))}
