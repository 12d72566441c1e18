"""`attnlab runs` and `attnlab compare`: what was run before, and runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from attnlab.cli.console import JsonOption, emit, out
from attnlab.config.values import ConfigError
from attnlab.runs.result import RunResult


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the runs.")] = Path("runs"),
    json: JsonOption = False,
) -> None:
    """List the runs of a folder: state, steps, dev loss, date, and whether they are sound."""
    from attnlab.runs.summary import runs_in

    found = runs_in(folder)
    if json:
        return emit([run.as_row() for run in found])
    if not found:
        out.print(f"There are no runs in {folder}.")
        return None
    table = Table(
        Column("run", overflow="fold"),
        "state",
        "steps",
        "dev loss",
        Column("sound", overflow="fold"),
        "begun",
    )
    for summary in found:
        run, date = summary.result, summary.date[:16].replace("T", " ")
        sound = soundness(run)
        cells = (run.folder, run.status, f"{run.steps:,}", shown(run.metrics.get("loss")), sound, date)
        table.add_row(*(c if c == sound else escape(c) for c in cells))
    out.print(table)
    return None


def compare(
    places: Annotated[list[Path], typer.Argument(metavar="RUN RUN …", help="Folders of runs.")],
    json: JsonOption = False,
) -> None:
    """Compare runs side by side, where their numbers are comparable."""
    if len(places) < 2:
        raise ConfigError("Give at least two runs; attnlab runs lists them.")
    from attnlab.runs.record import differences
    from attnlab.studies.side_by_side import side_by_side

    found = side_by_side(places)
    if json:
        return emit(found.as_json())
    runs = [summary.result for summary in found.runs]
    table = Table("measure", *(Column(header(run), overflow="fold", justify="right") for run in runs))
    table.add_row("steps", *(f"{run.steps:,}" for run in runs))
    for name in found.measures:
        table.add_row(name.replace("_", " "), *(shown(run.metrics.get(name)) for run in runs))
    out.print(table)
    first, *others = found.runs
    for summary in others:
        changes = "; ".join(differences(first.config, summary.config)) or "nothing"
        out.print(f"{summary.result.folder} differs in its config by: {escape(changes)}", highlight=False)
    for note in found.notes:
        out.print(escape(note), highlight=False, style="yellow" if note.startswith("Not") else "")
    return None


def soundness(run: RunResult) -> str:
    """Yes, or no with the failed checks; neither of a run without a step, which a check may have stopped."""
    failed = escape(", ".join(run.failures))
    if run.sound is None:
        return f"–, stopped by {failed}" if failed else "–"
    return "yes" if run.sound else f"[bold red]no: {failed}[/]"


def header(run: RunResult) -> str:
    return escape(run.folder) + ("\n[bold red]✗ not sound[/]" if run.sound is False else "")


def shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4f}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"
