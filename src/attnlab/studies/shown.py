"""A study's own figures and tables, in the form that results.json and the report take them in."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from attnlab.documents.nodes import Number
from attnlab.documents.numbers import estimate_of
from attnlab.metrics.metric import Estimate
from attnlab.runs.result import RunResult
from attnlab.studies.outcome import FigureRecord, SeriesRecord, StudyOutcome, TableRecord

BANDS = "Lines are means over the seeds, bands go from the lowest seed to the highest."


def runs_by_arm(outcome: StudyOutcome) -> dict[str, list[RunResult]]:
    """The runs of each arm that came to their end, in the order of the arms; none without one."""
    trained = {arm.name: [run for run in outcome.runs_of(arm.name) if run.trained] for arm in outcome.arms}
    return {arm: runs for arm, runs in trained.items() if runs}


def measured_number(score: Estimate | None, **options: Any) -> Number:
    """A score with its interval and n, as a document shows it."""
    return estimate_of(None if score is None else score.as_json(), **options)


def mean(runs: Sequence[RunResult], metric: str) -> float | None:
    """A measure's mean over the runs that have it."""
    values = [run.metrics[metric] for run in runs if metric in run.metrics]
    return fmean(values) if values else None


def rounded(digits: int, *values: float | None) -> list[float | None]:
    """Numbers of a table, to so many digits after the point; what is not known stays so."""
    return [None if value is None else round(value, digits) for value in values]


def over_seeds(name: str, x: Sequence[float], values: Sequence[Sequence[float]]) -> SeriesRecord:
    """A line of a figure from one list of values a seed, each as long as x."""
    columns = list(zip(*values, strict=True))
    several = len(values) > 1
    return {
        "name": name,
        "x": list(x),
        "y": [fmean(column) for column in columns],
        "low": [min(column) for column in columns] if several else None,
        "high": [max(column) for column in columns] if several else None,
    }


def figure(
    title: str,
    *,
    x: str,
    y: str,
    series: Sequence[SeriesRecord],
    log_x: bool = False,
    log_y: bool = False,
    note: str = BANDS,
) -> FigureRecord:
    return FigureRecord(title=title, x=x, y=y, log_x=log_x, log_y=log_y, series=list(series), note=note)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> TableRecord:
    return {"title": title, "columns": list(columns), "rows": [list(row) for row in rows], "note": note}


def interval(values: Sequence[float]) -> list[float | None]:
    """Mean, low and high over seeds; what is not known stays so."""
    from attnlab.evaluation.statistics import mean_of_seeds

    if not values:
        return [None] * 3
    known = mean_of_seeds(values)
    return rounded(4, known.value, *(known.interval or (None, None)))


def side(differences: Sequence[float]) -> str:
    """Where an interval leaves 0 out, on which side of it."""
    _, low, high = interval(differences)
    if low is None or high is None:
        return "" if not differences else "one seed"
    return "higher" if low > 0 else "lower" if high < 0 else "inconclusive"
