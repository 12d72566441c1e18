"""Every run by itself."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.metric_display import DisplayedMetric, metric
from attnlab.studies.report.number_text import column, exact
from attnlab.studies.report.study_results import StudyResults


def runs(study: StudyResults) -> dict[str, Any] | None:
    rows = list(study.runs())
    if not rows:
        return None
    names = dict.fromkeys(name for _, run in rows for name in run.get("metrics") or {})
    metrics = [metric(study, name) for name in [*names, "seconds", "tokens_per_second"]]
    columns = [column([{"value": _value(run, m)} for _, run in rows], m.form) for m in metrics]
    kept = [(m, c) for m, c in zip(metrics, columns, strict=True) if any(f.value is not None for f in c)]
    return {
        "metrics": [m for m, _ in kept],
        "rows": [
            {
                "arm": arm,
                "seed": run.get("seed"),
                "status": run.get("status") or "",
                "reason": run.get("reason") or "",
                "folder": run.get("folder") or "",
                "sound": arm.sound and run.get("status") != "invalid",
                "steps": exact(_cost(run, "steps"), "count"),
                "tokens": exact(_cost(run, "tokens"), "count"),
                "figures": [c[i] for _, c in kept],
            }
            for i, (arm, run) in enumerate(rows)
        ],
    }


def _value(run: Any, measure: DisplayedMetric) -> Any:
    return (run.get("metrics") or {}).get(measure.name, _cost(run, measure.name))


def _cost(run: Any, name: str) -> Any:
    """What the run took; a nought of a run without a result means that nobody knows."""
    ended = run.get("status") not in ("failed", "missing")
    return run.get(name) if ended or run.get(name) else None
