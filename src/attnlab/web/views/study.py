"""Studies: their runs as a grid of arms and seeds while they go, and their answer when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.documents.html import blocks, contents
from attnlab.documents.html import page as page_of_one_file
from attnlab.documents.markup import element
from attnlab.documents.nodes import DocumentPage
from attnlab.runs.faults import RunError
from attnlab.web.addresses import refuse_outside
from attnlab.web.indexed import IndexedRun, IndexedStudy
from attnlab.web.laboratory import Laboratory
from attnlab.web.live import Regions, Shown
from attnlab.web.shell import ShellPage, nodes, plots_of, region, template
from attnlab.web.views.home import studies_table
from attnlab.web.views.rows import page_of, progress_bar
from attnlab.web.views.run import elsewhere_sentence, file_answer
from attnlab.web.views.starting import last_words
from attnlab.web.views.study_commands import (
    NewStudy,
    StudyGrowth,
    added_arm,
    added_seeds,
    free_folder,
    growth,
    study_words,
)
from attnlab.web.views.study_grid import StudyProgress, grid

MOST_FILES = 100
"""Of the folder's TOML files, offered as studies."""


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()
    questions: dict[str, Any] = {}

    def regions(address: str) -> Regions:
        return regions_of(laboratory, laboratory.study(address))

    @router.get("/studies", response_class=HTMLResponse)
    async def studies() -> Response:
        """The studies of the folder, and a form that begins one."""
        topic = laboratory.live.topic("studies", lambda: list_regions(laboratory))
        if not questions:
            questions.update(await laboratory.workers.answer("studies"))
        return await laboratory.live.page(topic, lambda shown: studies_page(laboratory, shown, questions))

    @router.get("/studies/{address:path}", response_class=HTMLResponse)
    async def study(address: str) -> Response:
        """A study, live."""
        own = await asyncio.to_thread(laboratory.study, address)
        topic = laboratory.live.topic(f"studies/{own.address}", lambda: regions(address))

        def render(shown: Shown) -> str:
            return page(laboratory, laboratory.study(address), shown).html()

        return await laboratory.live.page(topic, render, key=(own.stamp, own.process))

    @router.get("/saved/studies/{address:path}", response_class=HTMLResponse)
    def saved(address: str) -> Response:
        """A study's report as one HTML file."""
        own = laboratory.study(address)
        report = laboratory.reports.of(own)
        if report is None:
            raise ConfigError(f"{own.name} has no report yet: it is written when its runs have ended.")
        return file_answer(page_of_one_file(report.document, scripts=True), f"{own.folder.name}.html")

    @router.post("/api/studies")
    async def begin(asked: NewStudy) -> dict[str, Any]:
        """Begin a study, as a process of its own."""
        words, name = study_words(laboratory, asked)
        values = {"study": words[0], "quick": bool(asked.quick)}
        await laboratory.workers.answer("study_to_run", None, values)
        folder = free_folder(laboratory.root, name)
        command = ["run", *words, "--out", str(folder)]
        await asyncio.to_thread(laboratory.processes.start, folder, command)
        return {"there": page_of(folder.name, "starting")}

    @router.post("/api/studies/stop/{address:path}")
    def stop(address: str) -> dict[str, Any]:
        """Ask a study to save all of its runs and end."""
        folder = laboratory.study(address).folder
        refuse_outside(laboratory.root, folder)
        laboratory.processes.stop(folder)
        return {"said": "Its runs save and end after this step."}

    @router.post("/api/studies/resume/{address:path}")
    async def resume(address: str, grown: StudyGrowth) -> dict[str, Any]:
        """Resume a study, with more seeds or a further arm where they are given."""
        study = await asyncio.to_thread(laboratory.study, address)
        folder = study.folder
        await asyncio.to_thread(refuse_outside, laboratory.root, folder)
        if why := elsewhere_of(laboratory.index.runs_of(address.strip("/"))):
            raise ConfigError(why)
        arms, seeds = added_arm(grown), added_seeds(grown)
        if seeds and seeds <= len(study.seeds) and not arms and not study.interrupted:
            raise ConfigError(f"It has {count_of(len(study.seeds), 'seed')} already; give a larger number.")
        await laboratory.workers.answer("study_to_run", folder, {"arms": arms})
        command = ["run", "--resume", "--out", str(folder), *growth(grown)]
        started = await asyncio.to_thread(laboratory.processes.start, folder, command)
        return {"said": f"Started: {started.words}"}

    return router


def list_regions(laboratory: Laboratory) -> Regions:
    """The parts of the list of studies that change while somebody looks."""
    studies = list(laboratory.index.studies.values())
    going = sum(bool(study.process) for study in studies)
    count = "1 study" if len(studies) == 1 else f"{len(studies):,} studies"
    return {
        "headline": f"{count}, {going:,} running" if going else count if studies else "No studies yet",
        "none": "" if studies else template("no_studies.html", out=laboratory.out("masking-quick")),
        "studies": studies_table(laboratory),
    }


def studies_page(laboratory: Laboratory, shown: Shown, questions: Mapping[str, Any]) -> str:
    """The list of studies, and what begins one."""
    files = sorted(file.name for file in laboratory.root.glob("*.toml"))[:MOST_FILES]
    form = template("new_study.html", studies=questions["studies"], files=files)
    lists = [region(name, Markup(shown[name])) for name in ("none", "studies")]
    return ShellPage(
        title="Studies",
        headline=shown["headline"],
        eyebrow="questions with seeds, intervals and a verdict",
        body=Markup("\n").join([*lists, form]),
        here="/studies",
        events="/events/studies",
        mark=shown.mark,
    ).html()


# ---------------------------------------------------------------- what is shown
def regions_of(laboratory: Laboratory, study: IndexedStudy) -> Regions:
    runs = laboratory.index.runs_of(study.address)
    progress = StudyProgress.of(study, runs)
    return {
        "headline": headline(laboratory, study, progress),
        "progress": progress_bar(progress.share) if study.process else "",
        "grid": grid(study, runs),
        "actions": actions(study, elsewhere_of(runs)),
        "said": Markup("") if study.process else last_words(laboratory.processes.started.get(study.folder)),
        "ended": "" if study.process else str(study.stamp[1]),
    }


def headline(laboratory: Laboratory, study: IndexedStudy, progress: StudyProgress) -> str:
    """The answer, or how much of the way there is done."""
    if study.fault:
        return "Damaged: it cannot be read"
    try:
        report = None if study.process else laboratory.reports.of(study)
    except (ConfigError, RunError) as error:
        return f"Its results cannot be read: {error}"
    if report is not None:
        return report.outcome.headline
    word = "Running" if study.process else "Interrupted"
    left = f", {progress.left}" if progress.left else ""
    if study.process and progress.done == progress.wanted:
        left = ", its report is being written"
    return f"{word}: {progress.count} done{left}"


def elsewhere_of(runs: Sequence[IndexedRun]) -> str:
    """Why a study is not resumed from here: another machine trains a run of it."""
    node = next((run.elsewhere for run in runs if run.elsewhere), "")
    return elsewhere_sentence(node) if node else ""


def actions(study: IndexedStudy, elsewhere: str) -> Markup:
    return template(
        "study_actions.html",
        address=study.address,
        runs=bool(study.process),
        elsewhere="" if study.process else elsewhere,
        ended=study.ended,
        interrupted=study.interrupted,
        there=page_of,
    )


def page(laboratory: Laboratory, study: IndexedStudy, shown: Shown) -> ShellPage:
    """Its report under its grid where it has ended."""
    eyebrow = element("a", "Studies", href="/studies") + " / " + element("bdi", study.address)
    own: dict[str, Any] = {"title": study.name, "headline": shown["headline"], "here": "/studies"}
    own |= {"eyebrow": eyebrow, "events": page_of(f"studies/{study.address}", "events")}
    asked = element("p", study.question, class_="question") if study.question else Markup("")
    runs = element("section", element("h2", "Runs"), region("grid", Markup(shown["grid"])), class_="part")
    marks = [region("ended", shown["ended"], hidden=True)]
    top = [region(name, Markup(shown[name])) for name in ("progress", "said", "actions")] + marks
    mark = shown.mark
    document = None if study.process or study.fault else _document(laboratory, study)
    if isinstance(document, str) or document is None:
        notice = (
            element("p", document or study.fault, class_="notice notice-invalid")
            if document or study.fault
            else ""
        )
        body = Markup("\n").join([*top, Markup(notice), runs])
        return ShellPage(**own, lead=asked, body=body, mark=mark, scripts=("study.js",))
    body = Markup("\n").join([*top, nodes(document.nodes), runs])
    return ShellPage(
        **own,
        lead=asked + blocks(document.lead),
        contents=contents(document),
        body=body,
        mark=mark,
        scripts=("study.js",),
        data={"plots": plots_of(document.nodes)},
    )


def _document(laboratory: Laboratory, study: IndexedStudy) -> DocumentPage | str | None:
    try:
        report = laboratory.reports.of(study)
        return None if report is None else report.document
    except (ConfigError, RunError) as error:
        return f"Its results cannot be read: {error}"
