"""Every run by itself."""

from __future__ import annotations

from typing import Any

from attnlab.runs.result import RunResult
from attnlab.studies.report.metric_display import DisplayedMetric, metric
from attnlab.studies.report.number_text import column, exact
from attnlab.studies.report.study_results import StudyResults

COSTS = ("steps", "tokens", "seconds", "tokens_per_second")


def runs(study: StudyResults) -> dict[str, Any] | None:
    rows = list(study.runs())
    if not rows:
        return None
    names = dict.fromkeys(name for _, run in rows for name in run.metrics)
    metrics = [metric(study, name) for name in [*names, "seconds", "tokens_per_second"]]
    columns = [column([{"value": _value(run, m)} for _, run in rows], m.form) for m in metrics]
    kept = [(m, c) for m, c in zip(metrics, columns, strict=True) if any(f.value is not None for f in c)]
    return {
        "metrics": [m for m, _ in kept],
        "rows": [
            {
                "arm": arm,
                "seed": run.seed,
                "status": run.status,
                "reason": str(run.reason or ""),
                "folder": run.folder,
                "sound": arm.sound and run.status != "invalid",
                "steps": exact(_cost(run, "steps"), "count"),
                "tokens": exact(_cost(run, "tokens"), "count"),
                "figures": [c[i] for _, c in kept],
            }
            for i, (arm, run) in enumerate(rows)
        ],
    }


def _value(run: RunResult, measure: DisplayedMetric) -> float | None:
    return run.metrics.get(measure.name, _cost(run, measure.name))


def _cost(run: RunResult, name: str) -> float | None:
    """What the run took; a nought of a run without a result means that nobody knows."""
    took: float = getattr(run, name) if name in COSTS else 0
    return took if took or (run.trained and name in COSTS) else None
