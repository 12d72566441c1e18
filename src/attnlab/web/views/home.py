"""Home: every run and study of the folder, as they go."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from attnlab.config.wording import count_of
from attnlab.documents.html import inline
from attnlab.documents.markup import element
from attnlab.documents.nodes import Number, state
from attnlab.runs.listing import comparable, value_spans
from attnlab.runs.result import RunState
from attnlab.web.index import IndexedRun
from attnlab.web.laboratory import Laboratory
from attnlab.web.live import FRESH, Regions
from attnlab.web.shell import ShellPage, region, template
from attnlab.web.views.rows import page_of, row_of
from attnlab.web.views.starting import last_words

COLUMNS = (
    ("", "picked"),
    ("run", ""),
    ("state", "col-state"),
    ("curve", "col-curve"),
    ("score", "number col-score"),
    ("time", "number col-time"),
)
ROW = Markup('<tr data-live="{}">{}</tr>')
FILTERS = ("all", "running", "finished", "invalid", "failed")


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()
    rows = _Rows(laboratory)

    @router.get("/", response_class=HTMLResponse)
    async def home() -> str:
        """Every run and study of the folder."""
        topic = laboratory.live.topic("home", rows.regions)
        return await laboratory.live.page(topic, lambda shown: page(laboratory, shown).html())

    listed: dict[int, bytes] = {}

    @router.get("/api/runs", response_model=list[dict[str, Any]])
    def runs() -> Response:
        """Every run in short."""
        laboratory.index.look(FRESH)
        version = laboratory.index.version
        content = listed.get(version)
        if content is None:
            made = [as_json(run) for run in laboratory.index.runs.values()]
            content = json.dumps(made).encode()
            listed.clear()
            listed[version] = content
        return Response(content, media_type="application/json")

    return router


def as_json(run: IndexedRun) -> dict[str, Any]:
    result = run.summary.result
    return {
        "address": run.address,
        "state": run.state.value,
        "study": run.study,
        "step": run.step,
        "share": run.share,
        "seconds_left": run.seconds_left,
        "metric": run.summary.metric,
        "score": result.metrics.get(run.summary.metric),
        "sound": result.sound,
        "failures": result.failures,
    }


class _Rows:
    """The rows of the list; one is rendered anew only where its run changed."""

    def __init__(self, laboratory: Laboratory):
        self.laboratory = laboratory
        self._rendered: dict[str, tuple[object, str]] = {}

    def regions(self) -> Regions:
        index = self.laboratory.index
        runs = sorted(index.runs.values(), key=lambda run: (-run.heard, run.address))
        spans = value_spans([run.summary for run in runs])
        shown = {"headline": headline(runs, len(index.studies)), "studies": studies(self.laboratory)}
        shown["started"] = started(self.laboratory)
        for run in runs:
            shown[f"row:{run.address}"] = self._row(run, spans.get(comparable(run.summary)))
        shown["order"] = json.dumps([f"row:{run.address}" for run in runs])
        shown["none"] = "" if runs else template("no_runs.html")
        return shown

    def _row(self, run: IndexedRun, span: tuple[float, float] | None) -> str:
        key = (run.stamp, run.process, run.state, span, run.step, round(run.heard) if run.grows else 0)
        known = self._rendered.get(run.address)
        if known is None or known[0] != key or run.grows:
            known = self._rendered[run.address] = key, str(row_of(run, span))
        return known[1]


def headline(runs: list[IndexedRun], studies: int) -> str:
    """How much there is, and how much of it goes on."""
    going = sum(run.grows for run in runs)
    wrong = sum(run.state in (RunState.INVALID, RunState.FAILED, RunState.DAMAGED) for run in runs)
    if not runs and not studies:
        return "No runs yet"
    parts = [count_of(len(runs), "run")]
    parts += ["1 study" if studies == 1 else f"{studies:,} studies"] if studies else []
    parts += [f"{going:,} running"] if going else []
    parts += [f"{wrong:,} invalid or failed"] if wrong else []
    return ", ".join(parts)


def studies(laboratory: Laboratory) -> Markup:
    """A line a study: how many of its runs are done, and where its answer is."""
    index = laboratory.index
    rows = []
    for study in sorted(index.studies.values(), key=lambda study: study.stamp, reverse=True):
        runs = index.runs_of(study.address)
        wanted = max(len(study.arms) * len(study.seeds), len(runs))
        done = sum(run.ended for run in runs)
        word = "running" if study.process else "finished" if study.ended else "interrupted"
        link = element("a", element("bdi", study.name), href=page_of(study.address, "studies"))
        asked = element("small", study.fault or study.question, class_="beside")
        cells = [
            element("th", link + asked, scope="row"),
            element("td", inline(state("damaged" if study.fault else word)), class_="col-state"),
            element(
                "td", inline((Number(done, form="count"), f" of {wanted} runs")), class_="number col-score"
            ),
        ]
        rows.append(element("tr", *cells))
    if not rows:
        return Markup("")
    heads = [element("th", name, scope="col", class_=look) for name, look in STUDY_COLUMNS]
    table = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="runs-list studies-list",
    )
    return element("h2", "Studies") + table


STUDY_COLUMNS = (("study", ""), ("state", ""), ("done", "number"))


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


def page(laboratory: Laboratory, shown: Regions) -> ShellPage:
    order: list[str] = json.loads(shown["order"])
    rows = Markup("").join(ROW.format(name, Markup(shown[name])) for name in order)
    heads = [element("th", name, scope="col", class_=look) for name, look in COLUMNS]
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
        table,
    ]
    return ShellPage(
        title="Runs",
        headline=shown["headline"],
        eyebrow=("folder ", laboratory.root.name),
        body=Markup("\n").join(body),
        here="/",
        scripts=("home.js",),
        events="/events/home",
        mark=laboratory.live.mark(),
    )
