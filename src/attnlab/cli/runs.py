"""`attnlab runs` and `attnlab compare`: what was run before, and runs side by side."""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from attnlab.cli.console import JsonOption, emit, out
from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible
from attnlab.runs.display import escape

if TYPE_CHECKING:
    from attnlab.runs.result import RunResult
    from attnlab.runs.summary import RunSummary


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the runs.")] = Path("runs"),
    json: JsonOption = False,
) -> None:
    """List the runs of a folder: state, steps, dev score, date, and whether they are sound."""
    from attnlab.runs.summary import runs_in

    found = runs_in(folder)
    if json:
        return emit([run.as_row() for run in found])
    if not found:
        out.print(f"There are no runs in {escape(visible(str(folder)))}.")
        return None
    rows = [cells(summary) for summary in found]
    table = Table("run", "state", "steps", "dev score", "sound", "begun")
    for row in rows:
        table.add_row(*row)
    if out.measure(table, options=out.options.update(width=10_000)).maximum <= out.width:
        out.print(table)
    else:  # names are there to be copied: they are never broken
        for name, state, steps, score, sound, begun in rows:
            out.print(f"[bold]{name}[/]", highlight=False, soft_wrap=True)
            told = f"  {state}, {steps} steps, dev {score}, sound: {sound}, begun {begun}"
            out.print(told, highlight=False, soft_wrap=True)
    for run in (summary.result for summary in found if summary.result.status == "damaged"):
        out.print(
            f"[bold red]Damaged:[/] {escape(visible(str(run.reason or '')))}", highlight=False, soft_wrap=True
        )
    return None


def cells(summary: RunSummary) -> tuple[str, ...]:
    run, date = summary.result, summary.date[:16].replace("T", " ")
    score = f"{summary.metric.replace('_', ' ')} {shown(run.metrics.get(summary.metric))}"
    told = (escape(visible(cell)) for cell in (run.folder, run.status, f"{run.steps:,}", score))
    return (*told, soundness(run), escape(visible(date)))


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
    named = {run.folder: header(run) for run in runs}
    if sum(len(run.folder) + 3 for run in runs) > out.width - 20:  # names that are copied are not broken
        named = {run.folder: header(run, letter) for run, letter in zip(runs, ascii_uppercase, strict=False)}
        for run, letter in zip(runs, ascii_uppercase, strict=False):
            out.print(f"{letter}: {escape(visible(run.folder))}", highlight=False, soft_wrap=True)
    table = Table("measure", *(Column(named[run.folder], justify="right") for run in runs))
    table.add_row("steps", *(f"{run.steps:,}" for run in runs))
    for name in found.measures:
        table.add_row(escape(name.replace("_", " ")), *(shown_with_interval(name, run) for run in runs))
    out.print(table)
    if "accuracy" in found.measures:
        out.print("In brackets: 95 % interval over other texts like these (Wilson).", highlight=False)
    first, *others = found.runs
    for summary in others:
        changes = "; ".join(differences(first.config, summary.config)) or "nothing"
        told = visible(f"{summary.result.folder} differs in its config by: {changes}")
        out.print(escape(told), highlight=False, soft_wrap=True)
    for note in found.notes:
        style = "yellow" if note.startswith("Not") else ""
        out.print(escape(visible(note)), highlight=False, soft_wrap=True, style=style)
    return None


def soundness(run: RunResult) -> str:
    """Yes, or no with the failed checks; neither of a run without a step, which a check may have stopped."""
    failed = escape(visible(", ".join(run.failures)))
    if run.sound is None:
        return f"–, stopped by {failed}" if failed else "–"
    return "yes" if run.sound else f"[bold red]no: {failed}[/]"


def header(run: RunResult, name: str = "") -> str:
    return escape(visible(name or run.folder)) + ("\n[bold red]✗ not sound[/]" if run.sound is False else "")


def shown_with_interval(name: str, run: RunResult) -> str:
    """A measure; an accuracy with its interval, which its value and the number of texts give."""
    value, n = run.metrics.get(name), int(run.metrics.get("targets", 0))
    if name != "accuracy" or value is None or not n:
        return shown(value)
    from attnlab.metrics.metric import wilson

    low, high = wilson(value * n, n)
    return f"{shown(value)}\n\\[{low:.3f}, {high:.3f}], n = {n:,}"


def shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4f}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"
