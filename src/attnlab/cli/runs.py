"""`attnlab runs` and `attnlab compare`: what was run before, and runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.console import JsonOption, emit, out
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Below, Inline, Number, Sentence, Table, TableColumn, Tone, toned

if TYPE_CHECKING:
    from attnlab.runs.result import RunResult
    from attnlab.runs.summary import RunSummary


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the runs.")] = Path("runs"),
    json: JsonOption = False,
) -> None:
    """List the runs of a folder: state, steps, dev score, date, and whether they are sound."""
    from attnlab.runs.summary import runs_in

    summaries = runs_in(folder)
    if json:
        return emit([run.as_row() for run in summaries])
    if not summaries:
        out.say(f"There are no runs in {folder}.")
        return None
    columns = (TableColumn("run", whole=True), "state", "steps", "dev score", "sound", "begun")
    out.show(Table(columns, list(map(cells, summaries)), look="listed"))
    for run in (summary.result for summary in summaries if summary.result.status == "damaged"):
        out.say(toned(Tone.WRONG, "Damaged:"), f" {run.reason}")
    return None


def cells(summary: RunSummary) -> tuple[Inline, ...]:
    run, date = summary.result, summary.date[:16].replace("T", " ")
    score = f"{summary.metric.replace('_', ' ')} ", score_number(run.metrics.get(summary.metric))
    return run.folder, run.status, run.steps, score, soundness(run), date


def compare(
    places: Annotated[list[Path], typer.Argument(metavar="RUN RUN …", help="Folders of runs.")],
    json: JsonOption = False,
) -> None:
    """Compare runs side by side, where their numbers are comparable."""
    if len(places) < 2:
        raise ConfigError("Give at least two runs; attnlab runs lists them.")
    from attnlab.runs.record import differences
    from attnlab.studies.outcome import NoteKind
    from attnlab.studies.side_by_side import side_by_side

    comparison = side_by_side(places)
    if json:
        return emit(comparison.as_json())
    runs = [summary.result for summary in comparison.runs]
    names = [run.folder for run in runs]
    if sum(len(name) + 3 for name in names) > out.width - 20:  # names that are copied are not broken
        for run, letter in zip(runs, ascii_uppercase, strict=False):
            out.say(f"{letter}: {run.folder}")
        names = [letter for letter, _ in zip(ascii_uppercase, runs, strict=False)]
    out.show(measures_table(comparison.measures, runs, names))
    if "accuracy" in comparison.measures:
        out.show(Sentence("Below an accuracy: its 95% interval over other texts like these (Wilson)."))
    first, *others = comparison.runs
    for summary in others:
        changes = "; ".join(map(str, differences(first.config, summary.config))) or "nothing"
        out.say(f"{summary.result.folder} differs in its config by: {changes}")
    for note in comparison.notes:
        out.say(toned(Tone.WARNING, str(note)) if note.kind is NoteKind.UNFAIR else str(note))
    return None


def measures_table(measures: Sequence[str], runs: Sequence[RunResult], names: Sequence[str]) -> Table:
    """A column a run, a row a measure."""
    heads = [
        TableColumn((name, Below("✗ not sound") if run.sound is False else ""), right=True, alike=False)
        for name, run in zip(names, runs, strict=True)
    ]
    rows: list[tuple[Inline, ...]] = [("steps", *(run.steps for run in runs))]
    rows += [(name.replace("_", " "), *(measure_number(name, run) for run in runs)) for name in measures]
    return Table(["measure", *heads], rows)


def soundness(run: RunResult) -> Inline:
    """Yes, or no with the failed checks; neither of a run without a step, which a check may have stopped."""
    failed = ", ".join(run.failures)
    if run.sound is None:
        return f"–, stopped by {failed}" if failed else "–"
    return "yes" if run.sound else toned(Tone.WRONG, f"no: {failed}")


def measure_number(name: str, run: RunResult) -> Number:
    """A measure; an accuracy with its interval, which its value and the number of texts give."""
    value, n = run.metrics.get(name), int(run.metrics.get("targets", 0))
    if name != "accuracy" or value is None or not n:
        return score_number(value)
    from attnlab.metrics.metric import wilson

    return Number(value, *wilson(value * n, n), n)


def score_number(value: float | None) -> Number:
    small = isinstance(value, float) and abs(value) < 100
    return Number(value, decimals=4 if small else 0)
