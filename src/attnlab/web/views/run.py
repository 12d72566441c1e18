"""A run: how it goes, what it came to, whether that is real, and what can be done with it."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from pydantic import BaseModel, Field

from attnlab.config.values import ConfigError
from attnlab.documents.html import page as page_of_one_file
from attnlab.documents.markup import element
from attnlab.documents.nodes import DocumentPage, Figure, Section
from attnlab.runs.faults import RunError
from attnlab.runs.summary import RunSummary
from attnlab.web.addresses import refuse_outside
from attnlab.web.course import RunCourse, ShownCurves
from attnlab.web.indexed import IndexedRun, showing
from attnlab.web.laboratory import Laboratory
from attnlab.web.live import LOGGER, OFTEN, Regions, Shown
from attnlab.web.shell import ShellPage, nodes, plot_of, region, template
from attnlab.web.views import run_curves, run_nodes, run_record
from attnlab.web.views.rows import page_of
from attnlab.web.views.starting import last_words

BYTES_A_SECOND = 32_000
"""Of curves that grow, sent to each who watches."""
LIMITS = ("steps", "tokens", "epochs", "flops", "seconds")
LIVE = ("summary", "notices", "samples", "checks", "checkpoints", "warnings")


class LongerBudget(BaseModel):
    """A longer budget for a run that is resumed; empty values leave it as it is."""

    limit: Annotated[str, Field(pattern="^(|steps|tokens|epochs|flops|seconds)$")] = ""
    amount: Annotated[str, Field(max_length=40)] = ""


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()

    def regions(address: str) -> Regions:
        return regions_of(laboratory, laboratory.run(address))

    @router.get("/runs/{address:path}", response_class=HTMLResponse)
    async def run(address: str) -> Response:
        """A run, live."""
        known = laboratory.index.runs.get(address)
        own = known if known is not None else await asyncio.to_thread(laboratory.run, address)
        topic = laboratory.live.topic(f"runs/{own.address}", lambda: regions(address))

        def render(shown: Shown) -> str:
            return page(laboratory, laboratory.run(address), shown).html()

        return await laboratory.live.page(topic, render, key=own.stamp[0])

    @router.get("/saved/runs/{address:path}", response_class=HTMLResponse)
    def saved(address: str) -> Response:
        """A run as one HTML file."""
        own = laboratory.run(address)
        if not own.summary.config:
            raise ConfigError(f"{own.address} cannot be read: {own.summary.result.reason}")
        html = page_of_one_file(document(laboratory, own), scripts=True)
        return file_answer(html, f"{own.folder.name}.html")

    @router.post("/api/stop/{address:path}")
    def stop(address: str) -> dict[str, Any]:
        """Ask a run to save and end, as Ctrl-C does."""
        own = laboratory.run(address)
        refuse_outside(laboratory.root, own.folder)
        if own.elsewhere:
            raise ConfigError(elsewhere_sentence(own.elsewhere))
        process = laboratory.processes.stop(own.folder)
        return {"said": "It saves and ends after this step.", "process": process}

    @router.post("/api/resume/{address:path}")
    async def resume(address: str, budget: LongerBudget) -> dict[str, Any]:
        """Resume a run, with a longer budget where one is given."""
        folder = await asyncio.to_thread(laboratory.model_folder, address)
        if node := laboratory.run(address).elsewhere:
            raise ConfigError(elsewhere_sentence(node))
        changes = budget_changes(budget)
        await laboratory.workers.answer("run_to_resume", folder, {"set": changes})
        command = ["train", "--resume", "--out", str(folder)]
        command += [word for change in changes for word in ("--set", change)]
        started = await asyncio.to_thread(laboratory.processes.start, folder, command)
        return {"said": f"Started: {started.words}", "process": started.process.pid}

    return router


def elsewhere_sentence(node: str) -> str:
    """Why a run or a study is neither stopped nor resumed from here."""
    return (
        f"The machine {node} trains it, or did when it last wrote, and this one cannot see its processes: "
        "stop or resume it there, or, where it has ended, resume it from the command line."
    )


def budget_changes(budget: LongerBudget) -> list[str]:
    """What a longer budget sets anew."""
    return [f"training.budget.{budget.limit}={amount_of(budget)}"] if budget.amount.strip() else []


def amount_of(budget: LongerBudget) -> str:
    """A number that a person wrote, as a setting has it."""
    text = budget.amount.replace(",", "").replace(" ", "").strip()
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f'The budget is "{budget.amount}"; give a number, such as 2000.') from None
    if not budget.limit or not 0 < value < 1e30:
        raise ConfigError("Give a number above 0, and what it counts: steps, tokens, epochs, flops, seconds.")
    return f"{value:.0f}" if value == int(value) else f"{value:g}"


def file_answer(html: str, name: str) -> Response:
    """A page of one file, to be kept; shown by a browser, it has no part in this origin."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    headers = {
        "content-disposition": f'attachment; filename="{safe.encode("ascii", "replace").decode()}"',
        "content-security-policy": "sandbox",
    }
    return HTMLResponse(html, headers=headers)


# ---------------------------------------------------------------- what is shown
def regions_of(laboratory: Laboratory, run: IndexedRun) -> Regions:
    """The parts of a run's page that change while it goes on; of one that cannot be shown, why."""
    try:
        with showing(run.address):
            return _regions(laboratory, run)
    except RunError as error:
        LOGGER.warning("%s cannot be shown.", run.address, exc_info=True)
        return _regions(laboratory, replace(run, summary=RunSummary.damaged(run.folder, str(error))))


def _regions(laboratory: Laboratory, run: IndexedRun) -> Regions:
    if not run.summary.config:
        return {"headline": run_nodes.headline(run), "notices": str(nodes(run_nodes.notices(run)))}
    course = laboratory.course(run)
    shown: dict[str, str] = {"headline": run_nodes.headline(run)}
    parts = run_nodes.live_parts(run, course, run_nodes.card_of_check)
    shown |= {name: str(nodes(parts[name])) for name in LIVE}
    shown["notices"] += str(failed_start(laboratory, run))
    shown["actions"] = actions(run)
    return {**shown, **curves_of(run, course)}


def curves_of(run: IndexedRun, course: RunCourse) -> Regions:
    """The curves as they are now; long ones of a run that goes on as they were some seconds ago, since a step
    more is hardly seen in them and all who watch are sent all of it."""
    known = course.growing.shown
    wait = known.size / BYTES_A_SECOND if known is not None and run.grows else 0.0
    if known is not None and wait > OFTEN and time.monotonic() - known.at < wait:
        return known.regions
    figures = run_curves.curves(run, course)
    shown = {
        f"plot:{figure.anchor}": json.dumps(plot_of(figure), allow_nan=False)
        for figure in figures
        if isinstance(figure, Figure)
    }
    shown["curves"] = str(nodes(figures))
    course.growing.shown = ShownCurves(shown, time.monotonic())
    return shown


def failed_start(laboratory: Laboratory, run: IndexedRun) -> Markup:
    """Why a run did not resume when the page started it: it wrote nothing since, so its record cannot say."""
    started = laboratory.processes.started.get(run.folder)
    silent = started is not None and run.heard < started.began
    return last_words(started) if silent else Markup("")


def actions(run: IndexedRun) -> Markup:
    """What can be done with a run in this state."""
    limits = run.summary.config.get("training", {}).get("budget", {})
    used = [name for name in LIMITS if limits.get(name, "unlimited") != "unlimited"]
    return template(
        "run_actions.html",
        address=run.address,
        grows=run.grows and bool(run.process),
        elsewhere=elsewhere_sentence(run.elsewhere) if run.elsewhere else "",
        resumable=not run.process and run.state not in ("converted", "damaged"),
        whole=run.share >= 1,
        limits=[*used, *(name for name in LIMITS if name not in used)],
        there=page_of,
    )


def page(laboratory: Laboratory, run: IndexedRun, shown: Shown) -> ShellPage:
    eyebrow = element("a", "Runs", href="/") + " / "
    if run.study:
        study = laboratory.index.studies.get(run.study)
        name = run.study if study is None else element("bdi", study.name)
        eyebrow += element("a", name, href=page_of(run.study, "studies")) + " / "
    own: dict[str, Any] = {
        "title": run.summary.name,
        "headline": shown["headline"],
        "eyebrow": eyebrow + element("bdi", run.address),
        "here": "/",
    }
    own |= {"events": page_of(f"runs/{run.address}", "events"), "mark": shown.mark}
    if not shown.get("summary"):
        notice = region("notices", Markup(shown["notices"]))
        whole = region("summary", hidden=True)
        return ShellPage(**own, body=notice + whole, scripts=("damaged.js",))
    plots = [name for name in shown if name.startswith("plot:") and shown[name]]
    with showing(run.address):
        still = run_record.still_parts(run)

    def live(name: str) -> Markup:
        return region(name, Markup(shown[name]))

    body = [
        live("notices"),
        live("actions"),
        live("summary"),
        region("curves", Markup(shown["curves"]), data_whole=True),
        *(_section(title, live(name)) for title, name in LIVE_SECTIONS),
        *(nodes([Section(title, parts)], 2) for title, parts in still.items()),
    ]
    return ShellPage(
        **own,
        body=Markup("\n").join(body),
        data={"plots": {name.removeprefix("plot:"): json.loads(shown[name]) for name in plots}},
    )


LIVE_SECTIONS = (
    ("Checks", "checks"),
    ("Samples by step", "samples"),
    ("Checkpoints", "checkpoints"),
    ("Warnings", "warnings"),
)


def _section(title: str, inside: Markup) -> Markup:
    return element("section", element("h2", title), inside, class_="part")


def document(laboratory: Laboratory, run: IndexedRun) -> DocumentPage:
    """The same as one file, as it stands now."""
    with showing(run.address):
        return _document(laboratory, run)


def _document(laboratory: Laboratory, run: IndexedRun) -> DocumentPage:
    course = laboratory.course(run)
    parts = run_nodes.live_parts(run, course)
    sections = [Section("Course", [*parts["summary"], *run_curves.curves(run, course)])]
    sections += [Section(title, parts[name]) for title, name in LIVE_SECTIONS if parts[name]]
    sections += [Section(title, still) for title, still in run_record.still_parts(run).items()]
    return DocumentPage(
        "run",
        run_nodes.headline(run),
        sections,
        name=run.summary.name,
        date=run.summary.date,
        lead=parts["notices"],
    )
