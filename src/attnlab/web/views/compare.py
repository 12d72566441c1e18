"""Runs side by side: curves over a common axis, what may be compared, and how their settings differ."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field

from attnlab.config.values import ConfigError
from attnlab.documents.html import page as page_of_one_file
from attnlab.documents.markup import element
from attnlab.documents.nodes import (
    Axis,
    Code,
    Control,
    DocumentPage,
    Figure,
    Form,
    Inline,
    Items,
    Line,
    Lines,
    Name,
    Node,
    Notice,
    Number,
    Section,
    Sentence,
    Table,
    TableColumn,
    Tone,
    listed,
    strong,
    toned,
)
from attnlab.documents.numbers import value_text
from attnlab.metrics import METRICS
from attnlab.metrics.measures import form_of, title_of
from attnlab.runs.listing import metric_number
from attnlab.runs.record import differences
from attnlab.studies.outcome import NoteKind
from attnlab.studies.side_by_side import SideBySide, side_by_side
from attnlab.studies.side_by_side_table import MOST_COLUMNS, measures_table
from attnlab.web.addresses import address_of, refuse_outside
from attnlab.web.arm_inks import inks_of_runs
from attnlab.web.course import RunCourse, Series
from attnlab.web.indexed import IndexedRun, showing
from attnlab.web.laboratory import Laboratory
from attnlab.web.shell import ShellPage, nodes, plots_of, template
from attnlab.web.views.run import file_answer
from attnlab.web.views.run_curves import AXES, COST
from attnlab.web.views.run_record import plain_setting

MOST = 20
Chosen = Annotated[Sequence[str], Query(max_length=MOST)]


class Paired(BaseModel):
    """The addresses of the runs."""

    run: Annotated[list[str], Field(max_length=MOST)]


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()

    @router.get("/compare", response_class=HTMLResponse)
    def compare(run: Chosen = ()) -> str:
        """Two to twenty runs side by side."""
        compared = ComparedRuns.of(chosen(laboratory, run))
        shown = document(laboratory, compared)
        query = urlencode([("run", one) for one in run])
        actions = template("compare_actions.html", runs=run if compared.comparison else [], query=query)
        body = actions + nodes(shown.nodes)
        return ShellPage(
            title="Compare",
            headline=shown.headline,
            eyebrow=element("a", "Runs", href="/") + " / compare",
            body=nodes(shown.lead) + body,
            here="/",
            scripts=("compare.js",),
            data={"plots": plots_of(shown.nodes)},
        ).html()

    @router.post("/api/paired")
    async def paired(asked: Paired) -> dict[str, str]:
        """Differences of the comparable runs from the first, each text of dev scored by all of them."""
        compared = await asyncio.to_thread(lambda: ComparedRuns.of(chosen(laboratory, asked.run)))
        if compared.comparison is None:
            raise ConfigError(without_root(laboratory, " ".join(compared.apart)))
        folders = [str(laboratory.model_folder(one.address)) for one in compared.together]
        answer = await laboratory.workers.answer("paired", None, {"folders": folders})
        return {"html": nodes([paired_table(laboratory, names_of(laboratory, compared.runs), answer)])}

    @router.get("/saved/compare", response_class=HTMLResponse)
    def saved(run: Chosen = ()) -> Response:
        """The comparison as one HTML file."""
        shown = document(laboratory, ComparedRuns.of(chosen(laboratory, run)))
        return file_answer(page_of_one_file(shown, scripts=True), "comparison.html")

    return router


def chosen(laboratory: Laboratory, addresses: Sequence[str]) -> list[IndexedRun]:
    """The runs that were picked, each once; the first is what the others are set beside."""
    runs = [laboratory.run(address) for address in dict.fromkeys(addresses)]
    if not 2 <= len(runs) <= MOST:
        raise ConfigError(f"Compare 2 to {MOST} runs: {len(runs)} chosen. Pick them on the list of runs.")
    for run in runs:
        refuse_outside(laboratory.root, run.folder)
        if not run.summary.config:
            raise ConfigError(f"{run.address} cannot be read: {run.summary.result.reason}")
    return runs


def names_of(laboratory: Laboratory, runs: Sequence[IndexedRun]) -> list[Name]:
    """Each with the ink that it has on the whole page."""
    inks = inks_of_runs(laboratory.index, runs)
    return [
        Name(run.address, own, sound=run.summary.result.sound is not False)
        for run, own in zip(runs, inks, strict=True)
    ]


@dataclass(frozen=True)
class ComparedRuns:
    """Runs that were picked: those that are comparable with the first, it among them, and why the others are
    not."""

    runs: list[IndexedRun]
    together: list[IndexedRun]
    apart: list[str]
    comparison: SideBySide | None

    @classmethod
    def of(cls, runs: list[IndexedRun]) -> ComparedRuns:
        with showing("This comparison"):
            together, apart = comparable(runs)
            several = len(together) > 1
            comparison = side_by_side([run.folder for run in together]) if several else None
            return cls(runs, together, apart, comparison)


def document(laboratory: Laboratory, compared: ComparedRuns) -> DocumentPage:
    """What may be compared, and what is only drawn."""
    with showing("This comparison"):
        return _document(laboratory, compared)


def _document(laboratory: Laboratory, compared: ComparedRuns) -> DocumentPage:
    comparison, together = compared.comparison, {run.address for run in compared.together}
    names = names_of(laboratory, compared.runs)
    courses = [laboratory.course(run) for run in compared.runs]
    lead: list[Node] = []
    if compared.apart:
        reasons: list[Inline] = [without_root(laboratory, why) for why in dict.fromkeys(compared.apart)]
        lead.append(Notice((strong("✗ Not comparable."), " ", listed(reasons, " ")), "invalid"))
    sections = [Section("Curves", [curves_figure(names, courses, together)])]
    if comparison is not None:
        lead += notes_of(laboratory, comparison)
        scored = [name for name in names if name.text in together]
        sections.insert(0, Section("Scores", [measures_table(comparison, scored)]))
    sections.append(Section("Settings that differ", [changes_table(compared.runs)]))
    answer = headline(comparison) if comparison is not None else "These runs are not comparable"
    return DocumentPage("comparison", answer, sections, lead=lead)


def comparable(runs: Sequence[IndexedRun]) -> tuple[list[IndexedRun], list[str]]:
    """The runs that are comparable with the first, it among them, and why the others are not."""
    together, apart = [runs[0]], list[str]()
    for run in runs[1:]:
        try:
            side_by_side([runs[0].folder, run.folder])
            together.append(run)
        except ConfigError as error:
            apart.append(str(error))
    return together, apart


def headline(comparison: SideBySide) -> str:
    """How far apart the runs are whose numbers may be believed, and no winner: that takes seeds."""
    results = [run.result for run in comparison.runs]
    sound = [result for result in results if result.sound is not False]
    count = (
        f"{len(results)} runs" if len(sound) == len(results) else f"{len(sound)} of {len(results)} runs sound"
    )
    for name in (name for name in comparison.measures if name in METRICS):
        values = [result.metrics[name] for result in sound if name in result.metrics]
        if len(values) == len(sound) > 0:
            low, high = (value_text(metric_number(name, value)) for value in (min(values), max(values)))
            return f"{count}, {title_of(name)} {low}{f' to {high}' if high != low else ''}"
    return f"{count}, compared by their costs"


def without_root(laboratory: Laboratory, text: str) -> str:
    """A sentence about runs by their addresses."""
    return text.replace(f"{laboratory.root}/", "")


def notes_of(laboratory: Laboratory, comparison: SideBySide) -> list[Node]:
    """What a reader must know before any row is believed; what is unfair stands out."""
    unfair = [note for note in comparison.notes if note.kind is NoteKind.UNFAIR]
    others = [note for note in comparison.notes if note.kind is not NoteKind.UNFAIR]
    shown: list[Node] = [
        Notice(toned(Tone.WARNING, without_root(laboratory, str(note))), "quick") for note in unfair
    ]
    sentences: list[Inline] = [without_root(laboratory, str(note)) for note in others]
    return [*shown, *([Items(sentences)] if len(sentences) > 1 else map(Sentence, sentences))]


def paired_table(laboratory: Laboratory, names: Sequence[Name], answer: Mapping[str, Any]) -> Table:
    """Each run minus the first, text by text."""
    by_address = {one.text: one for one in names}
    rows: list[tuple[Inline, ...]] = []
    for row in answer["rows"]:
        name = by_address[address_of(laboratory.root, Path(row["run"]))]
        form: Form = "points" if form_of(row["metric"]) == "percent" else "signed"
        difference = Number(row["value"], row.get("low"), row.get("high"), form=form, sound=name.sound)
        rows.append((name, title_of(row["metric"]), difference))
    return Table(
        ("run", "measure", TableColumn(("minus ", names[0]), right=True, alike=False)),
        rows,
        title="Differences, paired by text",
        note=f"Below each: its 95% interval over other texts like these {answer['texts']:,} of dev. The luck "
        "of the seed is not in it: only more seeds show that.",
    )


def curves_figure(names: Sequence[Name], courses: Sequence[RunCourse], compared: Set[str]) -> Figure:
    """A curve a run for each quantity; of losses and scores those that may be compared."""

    def drawn(quantity: str) -> list[tuple[Name, Series]]:
        runs = zip(names, courses, strict=True)
        known = [(name, own.series[quantity]) for name, own in runs if quantity in own.series]
        return [(name, series) for name, series in known if quantity in COST or name.text in compared]

    kept = [
        name
        for name in dict.fromkeys(name for course in courses for name in course.series)
        if (name.removeprefix("dev ") in METRICS or not name.startswith("dev ")) and drawn(name)
    ]
    kept.sort(key=lambda name: name != "dev loss")
    views = {}
    for place, quantity in enumerate(kept or ["train loss"]):
        for number, (axis, called) in enumerate(AXES.items()):
            lines = [
                Line(name.text, series.places(axis), series.values, ink=name.ink)
                for name, series in drawn(quantity)
            ]
            percent = form_of(quantity.removeprefix("dev ")) == "percent"
            up = Axis(title_of_curve(quantity), form="percent" if percent else "plain")
            views[f"{place},{number}"] = [Lines(lines, Axis(called), up)]
    return Figure(
        views,
        anchor="curves",
        alt="The course of each run",
        controls=[
            Control("Show", [title_of_curve(name) for name in kept] or ["train loss"]),
            Control("over", list(AXES.values())),
        ],
        legend=[(name, name.text) for name in names],
    )


def title_of_curve(name: str) -> str:
    return (
        f"dev {title_of(name.removeprefix('dev ')).removeprefix('dev ')}" if name.startswith("dev ") else name
    )


def changes_table(runs: Sequence[IndexedRun]) -> Node:
    """The settings in which any run differs from the first, a column a run."""
    first, *others = runs
    changed = {
        change.setting: change.before
        for run in others
        for change in differences(first.summary.config, run.summary.config)
    }
    if not changed:
        return Sentence("None: all of them were trained with the same settings.")
    by_run = [
        {change.setting: change.now for change in differences(first.summary.config, run.summary.config)}
        for run in others
    ]
    values = [
        [plain_setting(before), *(plain_setting(own.get(setting, before)) for own in by_run)]
        for setting, before in changed.items()
    ]
    if MOST_COLUMNS < len(runs) > len(changed):
        columns = zip(*values, strict=True)
        of_run: list[tuple[Inline, ...]] = [
            (run.address, *map(Code, own)) for run, own in zip(runs, columns, strict=True)
        ]
        return Table(("run", *changed), of_run)
    rows = [(Code(setting), *map(Code, own)) for setting, own in zip(changed, values, strict=True)]
    return Table((TableColumn("setting", whole=True), *(run.address for run in runs)), rows)
