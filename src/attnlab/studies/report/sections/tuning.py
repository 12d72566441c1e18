"""The grid of learning rates, tuned with equal effort for every arm."""

from __future__ import annotations

from typing import Any

from attnlab.studies.outcome import TunedRate
from attnlab.studies.report.metric_display import metric
from attnlab.studies.report.number_text import column
from attnlab.studies.report.study_results import StudyResults


def tuning(study: StudyResults) -> dict[str, Any] | None:
    tried = study.facts.tuning
    if not tried:
        return None
    rates = sorted({row.learning_rate for row in tried})
    found = {(row.arm, row.learning_rate): row for row in tried}
    values = column([{"value": row.value} for row in tried])
    shown = {(row.arm, row.learning_rate): value for row, value in zip(tried, values, strict=True)}
    arms = [arm for arm in study.arms if any(row.arm == arm.name for row in tried)]
    return {
        "metric": metric(study, tried[0].metric).title,
        "rates": [f"{rate:g}" for rate in rates],
        "rows": [
            (arm, [_cell(shown.get((arm.name, r)), found.get((arm.name, r))) for r in rates]) for arm in arms
        ],
    }


def _cell(value: Any, row: TunedRate | None) -> dict[str, Any]:
    return {"value": value, "chosen": row is not None and row.chosen}
