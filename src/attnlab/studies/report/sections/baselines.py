"""What accuracy there is without training on the task: the most frequent label, and label words."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.study_results import StudyResults


def baselines(study: StudyResults) -> dict[str, Any] | None:
    """One row for each baseline; arms with the same value share it."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for arm, run in study.runs():
        for one in run.extra.get("baselines", ()):
            key = one["name"], one["value"], one["n"], one["definition"]
            rows.setdefault(key, _row(one))["arms"][arm.name] = arm
    for row in rows.values():
        row["arms"] = [] if len(row["arms"]) == len(study.arms) else list(row["arms"].values())
    return {"rows": list(rows.values())} if rows else None


def _row(one: dict[str, Any]) -> dict[str, Any]:
    between = "" if one["interval"] is None else " to ".join(f"{end:.4f}" for end in one["interval"])
    shown = {"value": f"{one['value']:.4f}", "interval": between, "n": f"{one['n']:,}"}
    return {"name": one["name"], "definition": one["definition"], "arms": {}, **shown}
