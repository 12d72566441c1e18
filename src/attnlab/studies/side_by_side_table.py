"""Runs side by side as a table: a column a run and a row a measure, or the other way round for many runs."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.documents.nodes import Below, Inline, Number, Table, TableColumn
from attnlab.documents.numbers import value_text
from attnlab.metrics.measures import title_of
from attnlab.metrics.metric import wilson
from attnlab.runs.listing import metric_number
from attnlab.runs.result import RunResult
from attnlab.studies.side_by_side import SideBySide

MOST_COLUMNS = 6
"""Runs that stand side by side; more of them stand below one another."""


def measures_table(comparison: SideBySide, names: Sequence[Inline]) -> Table:
    """The measures of runs, and what is reached without training on the task."""
    if len(names) > MOST_COLUMNS:
        return _row_a_run(comparison, names)
    runs = [summary.result for summary in comparison.runs]
    heads = [
        TableColumn((name, Below("✗ invalid") if run.sound is False else ""), right=True, alike=False)
        for name, run in zip(names, runs, strict=True)
    ]
    rows: list[tuple[Inline, ...]] = [("steps", *(run.steps for run in runs))]
    if any(summary.scored_step != summary.result.steps for summary in comparison.runs):
        rows.append(("scored at step", *(summary.scored_step for summary in comparison.runs)))
    rows += [(title_of(name), *(measure_number(name, run) for run in runs)) for name in comparison.measures]
    for (name, metric), values in baselines_of(comparison).items():
        cells = [metric_number(metric, value) for value in values]
        rows.append(((name, Below(f"baseline, {title_of(metric)}")), *cells))
    return Table(["measure", *heads], rows)


def _row_a_run(comparison: SideBySide, names: Sequence[Inline]) -> Table:
    """Baselines that all runs share stand below the table, those of some of them nowhere."""
    columns = [TableColumn(title_of(name), right=True) for name in comparison.measures]
    rows: list[tuple[Inline, ...]] = []
    for name, summary in zip(names, comparison.runs, strict=True):
        run = summary.result
        head = (name, Below("✗ invalid") if run.sound is False else "")
        rows.append((head, run.steps, *(measure_number(measure, run) for measure in comparison.measures)))
    shared = [
        f"{name} {value_text(metric_number(metric, values[0]))} ({title_of(metric)})"
        for (name, metric), values in baselines_of(comparison).items()
        if len({*values}) == 1
    ]
    note = f"Baselines: {', '.join(shared)}." if shared else ""
    return Table([TableColumn("run"), TableColumn("steps", right=True), *columns], rows, note=note)


def baselines_of(comparison: SideBySide) -> dict[tuple[str, str], list[float | None]]:
    """What each run's baselines reach, by their name and measure; None where a run has none of the name."""
    values = [{(one["name"], one["metric"]): one["value"] for one in own} for own in comparison.baselines]
    known = dict.fromkeys(key for own in values for key in own)
    return {key: [own.get(key) for own in values] for key in known}


def measure_number(name: str, run: RunResult) -> Number:
    """A measure; an accuracy with its interval, which its value and the number of texts give."""
    value, n = run.metrics.get(name), int(run.metrics.get("targets", 0))
    sound = run.sound is not False
    if name != "accuracy" or value is None or not n:
        return metric_number(name, value, sound=sound)
    return Number(value, *wilson(value * n, n), n, form="percent", decimals=1, sound=sound)
