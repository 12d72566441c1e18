"""`attnlab check`: is this sound? A config, a run, a checkpoint, or predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from attnlab.checks.wording import counts_phrase, soundness_phrase
from attnlab.cli.console import JsonOption, SetOption, emit, err, out
from attnlab.config.values import ConfigError
from attnlab.runs.display import Display, escape
from attnlab.runs.findings import BAD, COLOURS, Findings

PREDICTIONS = (".csv", ".tsv", ".jsonl")
VERDICT_COLOURS = {False: "bold red", True: "green", None: "yellow"}


def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG|RUN|CHECKPOINT|FOLDER|PREDICTIONS",
            help="A config (file or name), a run's folder, one of its checkpoints, a folder in transformers' "
            "layout, or a .csv, .tsv or .jsonl "
            "with the columns label and prediction, and text if it is there.",
        ),
    ],
    set: SetOption = None,
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="Of predictions: the column that holds the labels.")
    ] = "label",
    prediction: Annotated[
        str, typer.Option(metavar="COLUMN", help="Of predictions: the column that holds them.")
    ] = "prediction",
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write the verdicts to DIR/checks.json.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say whether a result is real, and what is wrong where it is not. Exits 1 when a check fails."""
    found = found_in(target, set or [], label=label, prediction=prediction)
    if folder is not None:
        from attnlab.runs.findings import save_findings

        folder.mkdir(parents=True, exist_ok=True)
        save_findings(folder, found)
    if json:
        emit([one.as_json() for one in found])
    else:
        show(target, found)
    if any(one.outcome == "fail" for one in found):
        raise typer.Exit(1)


def found_in(target: str, set: list[str], *, label: str, prediction: str) -> list[Any]:
    place = Path(target)
    if place.is_dir():
        if set:
            raise ConfigError("--set cannot be used with a finished run or a model; give a config.")
        from attnlab.session.checking import of_folder

        with Display(err) as display:
            display.work("Opening the folder")
            return of_folder(place, tell=display.work)
    if place.suffix in PREDICTIONS:
        from attnlab.session.checking import of_predictions

        return of_predictions(place, label=label, prediction=prediction)
    from attnlab.config.files import load
    from attnlab.session.checking import of_config

    config = load(target, set=set)
    with Display(err) as display:
        display.work("Building the model")
        return of_config(config, tell=display.work)


def show(target: str, found: Sequence[Any]) -> None:
    """A table for each implementation with one row a check, and below them what the bad ones mean."""
    for code in dict.fromkeys(one.implementation for one in found):
        out.print(findings_table(target, code, [one for one in found if one.implementation == code]))
    for one in found:
        if one.outcome in BAD:
            colour = COLOURS[one.outcome]
            run_by = f" ({escape(one.implementation)})" if one.implementation else ""
            out.print(
                f"[{colour}]{one.mark} {escape(one.check)}[/]{run_by}: {escape(one.meaning)} "
                f"[bold]{escape(one.fix)}[/]",
                highlight=False,
            )
    findings = Findings(found)
    colour, verdict = VERDICT_COLOURS[findings.sound], soundness_phrase(findings.sound)
    seconds = sum(one.seconds for one in found)
    counts = counts_phrase(findings.outcomes)
    out.print(f"[{colour}]{verdict}[/]: {counts} ({seconds:.1f} s).", highlight=False)


def findings_table(target: str, implementation: str, found: Sequence[Any]) -> Table:
    found_column = Column("found", overflow="fold")  # a module's name is longer than the column
    title = f"{target}, run by {implementation}" if implementation else target
    table = Table("", "check", "when", found_column, "time", title=escape(title), title_justify="left")
    for one in found:
        colour = COLOURS.get(one.outcome, "dim")
        mark = f"[{colour}]{one.mark}[/]"
        moment = f"{one.when},\nstep {one.step:,}" if one.step else one.when
        table.add_row(mark, escape(one.check), escape(moment), escape(one.found), f"{one.seconds:.1f} s")
    return table
