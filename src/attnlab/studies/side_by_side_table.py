"""Runs side by side as a table: a column a run, a row a measure."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.documents.nodes import Below, Inline, Number, Table, TableColumn
from attnlab.metrics.measures import title_of
from attnlab.metrics.metric import wilson
from attnlab.runs.listing import metric_number
from attnlab.runs.result import RunResult
from attnlab.studies.side_by_side import SideBySide


def measures_table(comparison: SideBySide, names: Sequence[str]) -> Table:
    """A column a run, a row a measure, and below them what is reached without training on the task."""
    runs = [summary.result for summary in comparison.runs]
    heads = [
        TableColumn((name, Below("✗ invalid") if run.sound is False else ""), right=True, alike=False)
        for name, run in zip(names, runs, strict=True)
    ]
    rows: list[tuple[Inline, ...]] = [("steps", *(run.steps for run in runs))]
    if any(summary.scored_step != summary.result.steps for summary in comparison.runs):
        rows.append(("scored at step", *(summary.scored_step for summary in comparison.runs)))
    rows += [(title_of(name), *(measure_number(name, run) for run in runs)) for name in comparison.measures]
    values = [{(one["name"], one["metric"]): one["value"] for one in own} for own in comparison.baselines]
    for name, metric in dict.fromkeys(key for own in values for key in own):
        cells = [metric_number(metric, own.get((name, metric))) for own in values]
        rows.append(((name, Below(f"baseline, {title_of(metric)}")), *cells))
    return Table(["measure", *heads], rows)


def measure_number(name: str, run: RunResult) -> Number:
    """A measure; an accuracy with its interval, which its value and the number of texts give."""
    value, n = run.metrics.get(name), int(run.metrics.get("targets", 0))
    sound = run.sound is not False
    if name != "accuracy" or value is None or not n:
        return metric_number(name, value, sound=sound)
    return Number(value, *wilson(value * n, n), n, form="percent", decimals=1, sound=sound)
