"""`attnlab runs` and `attnlab compare`: what was run before, and runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.console import JsonOption, emit, err, out
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import (
    Sentence,
    Table,
    TableColumn,
    Tone,
    toned,
)
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.studies.side_by_side import SideBySide

TIME = TableColumn("time", right=True)
CURVES = "Curve: dev score by share of the budget, or training loss where dev was scored less than twice."


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the runs.")] = Path("runs"),
    json: JsonOption = False,
) -> None:
    """List the runs of a folder: state, dev curve, dev score, time, and why one is invalid."""
    from attnlab.runs.listing import cells, comparable, value_spans
    from attnlab.runs.summary import runs_in

    summaries = runs_in(folder)
    if json:
        return emit([run.as_row() for run in summaries])
    if not summaries:
        out.say(f"There are no runs in {folder}.")
        return None
    spans = value_spans(summaries)
    columns = (TableColumn("run", whole=True), "state", "curve", TableColumn("dev score", right=True), TIME)
    rows = [cells(run, spans.get(comparable(run))) for run in summaries]
    out.show(Table(columns, rows, note=CURVES, look="listed"))
    for run in (summary.result for summary in summaries if summary.result.status == "damaged"):
        out.say(toned(Tone.WRONG, "Damaged:"), f" {run.reason}")
    return None


def compare(
    places: Annotated[list[Path], typer.Argument(metavar="RUN RUN …", help="Folders of runs.")],
    json: JsonOption = False,
) -> None:
    """Compare runs side by side, where their numbers are comparable.

    Of runs that write texts (translations, summaries), BLEU, chrF and ROUGE are of all of dev, and their
    differences from the first run are paired text by text.
    """
    if len(places) < 2:
        raise ConfigError("Give at least two runs; attnlab runs lists them.")
    from attnlab.runs.record import differences
    from attnlab.studies.outcome import NoteKind
    from attnlab.studies.side_by_side import side_by_side
    from attnlab.studies.side_by_side_table import measures_table

    comparison = side_by_side(places)
    if comparison.of_texts:
        with Display(err) as display:
            display.work("Reading runs")
            from attnlab.studies.paired_texts import with_written_texts

            comparison = with_written_texts(comparison, places, tell=display.work)
    if json:
        return emit(comparison.as_json())
    runs = [summary.result for summary in comparison.runs]
    names = [run.folder for run in runs]
    if sum(len(name) + 3 for name in names) > out.width - 20:  # names that are copied are not broken
        for run, letter in zip(runs, ascii_uppercase, strict=False):
            out.say(f"{letter}: {run.folder}")
        names = [letter for letter, _ in zip(ascii_uppercase, runs, strict=False)]
    out.show(measures_table(comparison, names))
    if "accuracy" in comparison.measures:
        out.show(Sentence("Below an accuracy: its 95% interval over other texts like these (Wilson)."))
    if comparison.differences:
        show_differences(comparison, names)
    first, *others = comparison.runs
    for summary in others:
        changes = "; ".join(map(str, differences(first.config, summary.config))) or "nothing"
        out.say(f"{summary.result.folder} differs in its config by: {changes}")
    for note in comparison.notes:
        out.say(toned(Tone.WARNING, str(note)) if note.kind is NoteKind.UNFAIR else str(note))
    return None


def show_differences(comparison: SideBySide, names: Sequence[str]) -> None:
    """Scores of written texts of each run minus those of the first, paired by text."""
    from attnlab.session.scoring import difference_table

    titles = dict(zip((run.result.folder for run in comparison.runs), names, strict=True))
    for folder, estimates in comparison.differences.items():
        out.show(difference_table(titles[folder], names[0], estimates))
    out.show(Sentence(f"Scores of written texts are of the {comparison.texts:,} texts of dev."))
