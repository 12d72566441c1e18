"""Home: every run and study of the folder, as they go."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup, escape

from attnlab.config.wording import count_of
from attnlab.documents.html import inline
from attnlab.documents.markup import element
from attnlab.documents.nodes import Below, state
from attnlab.documents.palette import Ink
from attnlab.runs.faults import RunError
from attnlab.runs.listing import comparable, value_spans
from attnlab.runs.result import RunState
from attnlab.runs.summary import RunSummary
from attnlab.web.arm_inks import inks_by_study
from attnlab.web.indexed import IndexedRun, showing
from attnlab.web.laboratory import Laboratory
from attnlab.web.live import Regions, Shown
from attnlab.web.shell import ShellPage, region, template
from attnlab.web.views.rows import Span, page_of, progress_bar, row_of
from attnlab.web.views.starting import last_words
from attnlab.web.views.study_grid import StudyProgress

COLUMNS = (
    ("", "picked", ""),
    ("run", "", "name"),
    ("state", "col-state", "col-state"),
    ("curve", "col-curve", ""),
    ("score", "number col-score", "col-score"),
    ("time", "number col-time", "col-time"),
    ("started", "number col-when", "col-when"),
)
"""Head, class, and by what of its cells the list is sorted when the head is pressed; empty: by nothing."""
FILTERS = ("all", "running", "finished", "interrupted", "invalid", "failed")


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()
    rows, listed = _Rows(laboratory), _Listed(laboratory)

    @router.get("/", response_class=HTMLResponse)
    async def home() -> Response:
        """Every run and study of the folder."""
        topic = laboratory.live.topic("home", rows.regions)
        return await laboratory.live.page(topic, lambda shown: page(laboratory, shown).html())

    @router.get("/api/runs", response_model=list[dict[str, Any]])
    async def runs() -> Response:
        """Every run in short."""
        topic = laboratory.live.topic("api/runs", listed.regions)
        listing = await laboratory.live.page(topic, lambda shown: shown["runs"])
        return Response(listing.body, media_type="application/json")

    return router


def as_json(run: IndexedRun) -> dict[str, Any]:
    result, score = run.summary.result, run.summary.result.metrics.get(run.summary.metric)
    return {
        "address": run.address,
        "state": run.state.value,
        "study": run.study,
        "step": run.step,
        "share": run.share,
        "seconds_left": run.seconds_left,
        "metric": run.summary.metric,
        "score": score if score is not None and math.isfinite(score) else None,
        "sound": result.sound,
        "failures": result.failures,
    }


class _Rows:
    """The rows of the list; one is rendered anew only where its run changed."""

    def __init__(self, laboratory: Laboratory):
        self.laboratory = laboratory
        self._rendered: dict[str, tuple[IndexedRun, Span, Ink | None, str]] = {}

    def regions(self) -> Regions:
        index = self.laboratory.index
        runs = sorted(index.runs.values(), key=lambda run: (run.summary.date, run.address), reverse=True)
        spans = {group: steady(*span) for group, span in value_spans([run.summary for run in runs]).items()}
        studies = element("h2", "Studies") + studies_table(self.laboratory) if index.studies else ""
        shown = {"headline": headline(runs, len(index.studies)), "studies": studies}
        shown["started"] = started(self.laboratory)
        inks = inks_by_study(index)
        for run in runs:
            own = inks.get(run.study, {}).get(run.arm)
            shown[f"row:{run.address}"] = self._row(run, spans.get(comparable(run.summary)), own)
        shown["order"] = json.dumps([f"row:{run.address}" for run in runs])
        shown["none"] = "" if runs else template("no_runs.html", out=self.laboratory.out("mini-gpt"))
        return shown

    def _row(self, run: IndexedRun, span: Span, own: Ink | None) -> str:
        known = self._rendered.get(run.address)
        if known is None or known[0] is not run or known[1:3] != (span, own) or not run.ended:
            known = self._rendered[run.address] = run, span, own, self._drawn(run, span, own)
        return known[3]

    def _drawn(self, run: IndexedRun, span: Span, own: Ink | None) -> str:
        """A run's row; of one whose record cannot be drawn, that it is damaged: the others are shown."""
        try:
            with showing(run.address):
                return str(row_of(run, span, own))
        except RunError as error:
            return str(row_of(replace(run, summary=RunSummary.damaged(run.folder, str(error))), None))


def steady(low: float, high: float) -> tuple[float, float]:
    """A little wider, to numbers that seldom move while a run goes on: all rows are drawn by them."""
    if not 0 < high - low < math.inf:
        return low, high
    step = 10.0 ** math.floor(math.log10(high - low)) / 5
    return math.floor(low / step) * step, math.ceil(high / step) * step


class _Listed:
    """The runs as JSON; one is written anew only where it changed."""

    def __init__(self, laboratory: Laboratory):
        self.laboratory = laboratory
        self._written: dict[str, tuple[IndexedRun, str]] = {}

    def regions(self) -> Regions:
        return {"runs": f"[{','.join(map(self._text, self.laboratory.index.runs.values()))}]"}

    def _text(self, run: IndexedRun) -> str:
        known = self._written.get(run.address)
        if known is None or known[0] is not run or not run.ended:
            known = self._written[run.address] = run, json.dumps(as_json(run))
        return known[1]


def headline(runs: list[IndexedRun], studies: int) -> str:
    """How much there is, how much of it goes on, and what the list does not show at first."""
    if not runs and not studies:
        return "No runs yet"
    wrong = [run for run in runs if run.state in (RunState.INVALID, RunState.FAILED, RunState.DAMAGED)]
    going = sum(run.grows for run in runs)
    parts = [count_of(len(runs), "run") + in_studies(runs)]
    parts += ["1 study" if studies == 1 else f"{studies:,} studies"] if studies else []
    parts += [f"{going:,} running"] if going else []
    parts += [f"{len(wrong):,} invalid or failed{in_studies(wrong)}"] if wrong else []
    return ", ".join(parts)


def in_studies(runs: list[IndexedRun]) -> str:
    """How many of some runs are of studies."""
    count = sum(bool(run.study) for run in runs)
    return f" ({count:,} in studies)" if count else ""


def head_of(name: str, look: str, sorts: str) -> Markup:
    """The head of a column; by one that can be sorted the list is, when it is pressed."""
    shown = element("button", name, type="button", data_by=sorts) if sorts else name
    return element("th", shown, scope="col", class_=look)


def studies_table(laboratory: Laboratory) -> Markup:
    """A line a study: its question, how many of its runs are done, and its answer."""
    index = laboratory.index
    rows = []
    for study in sorted(index.studies.values(), key=lambda study: study.stamp, reverse=True):
        progress = StudyProgress.of(study, index.runs_of(study.address))
        word = "running" if study.process else "interrupted" if study.interrupted else "finished"
        link = element("a", element("bdi", study.name), href=page_of(study.address, "studies"))
        asked = element("small", study.fault or study.question, class_="beside")
        answer = "" if study.process else study.answer.headline
        if study.address != study.name:  # a question that was asked more than once
            link += element("small", "in ", element("bdi", study.address), class_="beside")
        left = inline(Below(progress.left)) if progress.left else Markup("")
        bar = Markup(" ") + progress_bar(progress.share) if study.process else Markup("")
        became = inline(state("damaged" if study.fault else word)) + left + bar
        cells = [
            element("th", link + asked, scope="row"),
            element("td", became, class_="col-state"),
            element("td", answer or "–", class_="col-answer"),
            element("td", progress.count, class_="number col-score"),
        ]
        rows.append(element("tr", *cells))
    if not rows:
        return Markup("")
    heads = [element("th", name, scope="col", class_=look) for name, look in STUDY_COLUMNS]
    return element(
        "table",
        element("caption", "Studies", class_="hidden"),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="runs-list studies-list",
    )


STUDY_COLUMNS = (("study", ""), ("state", "col-state"), ("answer", ""), ("done", "number"))


def started(laboratory: Laboratory) -> Markup:
    """What was started from here and is no run yet, or ended before it became one."""
    lines = []
    for one in laboratory.processes.started.values():
        address = one.folder.relative_to(laboratory.root).as_posix()
        if address in laboratory.index.runs or address in laboratory.index.studies:
            continue
        if one.code is None:
            lines.append(element("p", inline(("◐ ", "Starting ", address, ": ", one.words)), class_="notice"))
        else:
            lines.append(last_words(one))
    return Markup("").join(lines)


def page(laboratory: Laboratory, shown: Shown) -> ShellPage:
    order: list[str] = json.loads(shown["order"])
    # written out, since there may be thousands: what is in a row is markup already
    rows = Markup("".join(f'<tr data-live="{escape(name)}">{shown[name]}</tr>' for name in order))
    heads = [head_of(*column) for column in COLUMNS]
    table = element(
        "table",
        element("caption", "Runs", class_="hidden"),
        element("thead", element("tr", *heads)),
        element("tbody", rows),
        class_="runs-list",
        id="runs",
        hidden=not order,
    )
    body = [
        region("started", Markup(shown["started"])),
        region("studies", Markup(shown["studies"])),
        element("h2", "Runs", hidden=not shown["studies"]),
        region("none", Markup(shown["none"])),
        template("runs_tools.html", filters=FILTERS, hidden=not order),
        element("p", "", class_="fine", id="ranked", role="status"),
        table,
        element("p", "", class_="empty", id="nothing-fits", role="status", hidden=True),
    ]
    return ShellPage(
        title="Runs",
        headline=shown["headline"],
        eyebrow=("folder ", laboratory.root.name),
        body=Markup("\n").join(body),
        here="/",
        scripts=("home.js",),
        events="/events/home",
        mark=shown.mark,
    )
