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
    Below,
    Inline,
    Number,
    Sentence,
    Sparkline,
    Table,
    TableColumn,
    Tone,
    state,
    toned,
)
from attnlab.documents.numbers import short
from attnlab.metrics.measures import form_of, title_of
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.runs.result import RunResult
    from attnlab.runs.summary import RunSummary
    from attnlab.studies.side_by_side import SideBySide

TIME = TableColumn("time", right=True)
CURVES = "Curve: dev score by share of the budget, or training loss where dev was scored less than twice."


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the runs.")] = Path("runs"),
    json: JsonOption = False,
) -> None:
    """List the runs of a folder: state, dev curve, dev score, time, and why one is invalid."""
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


def cells(summary: RunSummary, span: tuple[float, float] | None) -> tuple[Inline, ...]:
    """A run in a row: its name, what became of it, how it went, what it came to and how long it took."""
    run, date = summary.result, summary.date[:16].replace("T", " ")
    invalid = run.status == "finished" and run.sound is False
    why = ("stopped by " if run.failures and run.sound is None else "") + ", ".join(run.failures)
    became = state("invalid" if invalid else run.status), (Below(why) if why else "")
    about = Below(f"{run.steps:,} steps" + (f", {date}" if date else ""))
    score = metric_number(summary.metric, run.metrics.get(summary.metric), sound=not invalid)
    named = score, Below(title_of(summary.metric))
    return (run.folder, about), became, sparkline(summary, span), named, Number(run.seconds, form="seconds")


def sparkline(summary: RunSummary, span: tuple[float, float] | None) -> Inline:
    curve, broken = summary.curve, summary.result.status in ("failed", "damaged")
    if len(curve.values) < 2:
        return "✗" if broken else "–"
    ends = " to ".join(short(value) for value in (curve.values[0], curve.values[-1]))
    said = f"{curve.name} {ends} in {summary.result.steps:,} steps"
    return Sparkline(curve.shares, curve.values, said, span, broken)


def comparable(summary: RunSummary) -> tuple[str, str]:
    """What runs share whose curves are drawn on one scale: the metric, and what it was measured on."""
    return summary.curve.name, str(summary.result.fingerprints.get("data"))


def value_spans(summaries: Sequence[RunSummary]) -> dict[tuple[str, str], tuple[float, float]]:
    """The lowest and highest value of each group of comparable curves."""
    values: dict[tuple[str, str], list[float]] = {}
    for summary in summaries:
        values.setdefault(comparable(summary), []).extend(summary.curve.values)
    return {group: (min(own), max(own)) for group, own in values.items() if own}


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
    if name != "accuracy" or value is None or not n:
        return metric_number(name, value)
    from attnlab.metrics.metric import wilson

    return Number(value, *wilson(value * n, n), n, form="percent", decimals=1)


def metric_number(name: str, value: float | None, *, sound: bool = True) -> Number:
    """A score as its kind is written: a share in percent, a loss to four decimals, a count whole."""
    if name.endswith("seconds"):
        return Number(value, form="seconds", sound=sound)
    if form_of(name) == "percent":
        return Number(value, form="percent", decimals=1, sound=sound)
    small = isinstance(value, float) and abs(value) < 100
    return Number(value, decimals=4 if small else 0, sound=sound)
