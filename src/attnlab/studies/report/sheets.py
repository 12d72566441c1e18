"""The study's numbers as CSV, to the last digit."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from attnlab.config.visible_text import as_cell, visible_lines
from attnlab.runs.result import RunResult, RunState
from attnlab.studies.outcome import without_nan
from attnlab.studies.report.study_results import Arm, StudyResults

RUN = (
    "arm",
    "seed",
    "status",
    "sound",
    "reason",
    "folder",
    "steps",
    "tokens",
    "seconds",
    "tokens_per_second",
)
COMPARISON = (
    *("arm", "baseline", "metric", "difference", "low", "high", "p", "p_corrected", "smallest"),
    *("seeds", "documents", "verdict", "words"),
)
FURTHER = ("margin", "spread_seeds", "spread_texts", "unequal", "without_leak")
"""Of comparisons, where a study has any."""


def runs(study: StudyResults) -> str:
    """A row a run; `sound` is false where a check failed, and empty where a run has no result to judge."""
    rows = [{**run.as_json(), **run.metrics, "sound": _sound(arm, run)} for arm, run in study.runs()]
    metrics = dict.fromkeys(name for _, run in study.runs() for name in run.metrics)
    return _sheet(dict.fromkeys([*RUN, "peak_memory_bytes", *metrics]), rows)


def _sound(arm: Arm, run: RunResult) -> bool | None:
    return arm.sound and run.status is not RunState.INVALID if run.trained else None


def comparisons(study: StudyResults) -> str:
    """A row a difference."""
    rows = [without_nan(one.as_json()) for one in study.outcome.comparisons]
    there = {name for row in rows for name in row}
    return _sheet([*COMPARISON, *(name for name in FURTHER if name in there)], rows)


def _cell(value: Any) -> Any:
    return "" if value is None else as_cell(visible_lines(value) if isinstance(value, str) else value)


def _sheet(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    sheet = io.StringIO()
    writer = csv.DictWriter(sheet, list(columns), extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return sheet.getvalue()
