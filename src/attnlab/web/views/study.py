"""Studies: their runs as a grid of arms and seeds while they go, and their answer when they end."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from pydantic import BaseModel, Field

from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.documents.html import blocks, contents, inline
from attnlab.documents.html import page as page_of_one_file
from attnlab.documents.markup import element
from attnlab.documents.nodes import DocumentPage, Inline, state
from attnlab.documents.numbers import duration
from attnlab.runs.faults import FAULTS, RunError
from attnlab.runs.listing import comparable, sparkline, value_spans
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.report.page import report
from attnlab.studies.report.study_results import StudyResults
from attnlab.web.addresses import folder_at, refuse_outside
from attnlab.web.index import RESULTS, IndexedRun, IndexedStudy
from attnlab.web.laboratory import Laboratory
from attnlab.web.live import Regions, Shown
from attnlab.web.shell import ShellPage, nodes, plots_of, region, template
from attnlab.web.views.home import studies as studies_list
from attnlab.web.views.rows import page_of, progress_bar, score_of, state_of
from attnlab.web.views.run import file_answer
from attnlab.web.views.starting import last_words

Name = Annotated[str, Field(max_length=200)]


class NewStudy(BaseModel):
    """A built-in question by its name, or a TOML file of the served folder."""

    study: Name
    quick: Annotated[str, Field(max_length=8)] = ""
    seeds: Annotated[str, Field(max_length=8)] = ""


class StudyGrowth(BaseModel):
    """More of a study: a number of seeds, or a further arm with what it changes."""

    seeds: Annotated[str, Field(max_length=8)] = ""
    arm: Name = ""
    changes: Annotated[str, Field(max_length=4000)] = ""


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()
    reports = _Reports()

    def regions(address: str) -> Regions:
        return regions_of(laboratory, laboratory.study(address))

    @router.get("/studies", response_class=HTMLResponse)
    async def studies() -> Response:
        """The studies of the folder, and a form that begins one."""
        topic = laboratory.live.topic("studies", lambda: {"studies": studies_list(laboratory)})
        questions = await laboratory.workers.answer("studies")
        return await laboratory.live.page(topic, lambda shown: studies_page(laboratory, shown, questions))

    @router.get("/studies/{address:path}", response_class=HTMLResponse)
    async def study(address: str) -> Response:
        """A study, live."""
        own = await asyncio.to_thread(laboratory.study, address)
        topic = laboratory.live.topic(f"studies/{own.address}", lambda: regions(address))

        def render(shown: Shown) -> str:
            return page(laboratory, laboratory.study(address), shown, reports).html()

        return await laboratory.live.page(topic, render, key=(own.stamp, own.process))

    @router.get("/saved/studies/{address:path}", response_class=HTMLResponse)
    def saved(address: str) -> Response:
        """A study's report as one HTML file."""
        own = laboratory.study(address)
        document = reports.of(laboratory, own)
        if document is None:
            raise ConfigError(f"{own.name} has no report yet: it is written when its runs have ended.")
        return file_answer(page_of_one_file(document, scripts=True), f"{own.folder.name}.html")

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
        laboratory.processes.stop(laboratory.study(address).folder)
        return {"said": "Its runs save and end after this step."}

    @router.post("/api/studies/resume/{address:path}")
    async def resume(address: str, grown: StudyGrowth) -> dict[str, Any]:
        """Resume a study, with more seeds or a further arm where they are given."""
        folder = (await asyncio.to_thread(laboratory.study, address)).folder
        await asyncio.to_thread(refuse_outside, laboratory.root, folder)
        arms = added_arm(grown)
        await laboratory.workers.answer("study_to_run", folder, {"arms": arms})
        command = ["run", "--resume", "--out", str(folder), *growth(grown)]
        started = await asyncio.to_thread(laboratory.processes.start, folder, command)
        return {"said": f"Started: {started.words}"}

    return router


def studies_page(laboratory: Laboratory, shown: Shown, questions: Mapping[str, Any]) -> str:
    """The list of studies, and what begins one."""
    empty = "" if shown["studies"] else template("no_studies.html")
    form = template("new_study.html", studies=questions["studies"])
    return ShellPage(
        title="Studies",
        headline="Studies" if shown["studies"] else "No studies yet",
        eyebrow="questions with seeds, intervals and a verdict",
        body=Markup("\n").join([Markup(empty), region("studies", Markup(shown["studies"])), form]),
        here="/studies",
        events="/events/studies",
        mark=shown.mark,
    ).html()


def growth(grown: StudyGrowth) -> list[str]:
    """The options of what a study has more."""
    words = ["--seeds", str(whole_number(grown.seeds, "The number of seeds"))] if grown.seeds.strip() else []
    return [*words, *(word for change in added_arm(grown) for word in ("--arm", change))]


def added_arm(grown: StudyGrowth) -> list[str]:
    """A further arm as --arm takes it, a setting each."""
    if bool(grown.arm.strip()) != bool(grown.changes.strip()):
        raise ConfigError("A further arm has a name and at least one setting, such as model.width=64.")
    changes = [line.strip() for line in grown.changes.splitlines() if line.strip()]
    return [f"{grown.arm.strip()}:{change}" for change in changes]


def whole_number(text: str, what: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= 1000:
        raise ConfigError(f'{what} is "{text}"; give a whole number from 1 to 1000.')
    return int(text)


def study_words(laboratory: Laboratory, asked: NewStudy) -> tuple[list[str], str]:
    """The words of the command that begins a study, and its name. A file is of the served folder, and has no
    code: that runs only where a person names it on the command line."""
    words, name = [asked.study.strip()], asked.study.strip()
    if "/" in name or "." in name:
        file = folder_at(laboratory.root, str(Path(name).parent)) if "/" in name else laboratory.root
        file = file / Path(name).name
        if file.suffix != ".toml":
            raise ConfigError(f'"{name}" is not a TOML file. A study in Python: attnlab run {name}')
        if not file.is_file() or not file.resolve().is_relative_to(laboratory.root):
            raise ConfigError(f'There is no file "{name}" in the served folder.')
        words, name = [str(file)], file.stem
    words += ["--quick"] if asked.quick else []
    words += ["--seeds", str(whole_number(asked.seeds, "The number of seeds"))] if asked.seeds.strip() else []
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f'"{name}" is neither a built-in study nor a TOML file of the served folder.')
    return words, f"{name}-quick" if asked.quick else name


def free_folder(root: Path, name: str) -> Path:
    """A folder of this name that nothing has, numbered where it must be."""
    numbers = (name if number == 1 else f"{name}-{number}" for number in range(1, 10_000))
    return next(root / one for one in numbers if not (root / one).exists())


# ---------------------------------------------------------------- a study that has ended
class _Reports:
    """The documents of studies that ended, made again when their results change."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[object, DocumentPage]] = {}

    def of(self, laboratory: Laboratory, study: IndexedStudy) -> DocumentPage | None:
        if not study.ended:
            return None
        known = self._made.get(study.address)
        if known is None or known[0] != study.stamp:
            refuse_outside(laboratory.root, study.folder)
            document = report(StudyResults(outcome_of(study.folder)))
            self._made[study.address] = known = study.stamp, document
            while len(self._made) > 16:
                del self._made[next(iter(self._made))]
        return known[1]


def outcome_of(folder: Path) -> StudyOutcome:
    from attnlab.config.untrusted import read_json

    return StudyOutcome.of_json(read_json(folder / RESULTS, most=64 << 20))


# ---------------------------------------------------------------- what is shown
def regions_of(laboratory: Laboratory, study: IndexedStudy) -> Regions:
    runs = laboratory.index.runs_of(study.address)
    return {
        "headline": headline(study, runs),
        "grid": grid(study, runs),
        "actions": actions(study),
        "said": Markup("") if study.process else last_words(laboratory.processes.started.get(study.folder)),
        "ended": "" if study.process else str(study.stamp[1]),
    }


def headline(study: IndexedStudy, runs: list[IndexedRun]) -> str:
    """The answer, or how much of the way there is done."""
    if study.fault:
        return "Damaged: it cannot be read"
    if study.ended and not study.process:
        try:
            return outcome_of(study.folder).headline
        except (ConfigError, RunError, *FAULTS) as error:
            return f"Its results cannot be read: {error}"
    done, wanted = sum(run.ended for run in runs), wanted_runs(study, runs)
    left = [run.seconds_left for run in runs if run.grows and run.seconds_left is not None]
    word = "Running" if study.process else "Interrupted"
    rest = f", {duration(max(left), 0)} left in the runs that go on" if left else ""
    return f"{word}: {done} of {count_of(wanted, 'run')} done{rest}"


def wanted_runs(study: IndexedStudy, runs: list[IndexedRun]) -> int:
    return max(len(study.arms) * len(study.seeds), len([run for run in runs if "/runs/" in run.address]))


def grid(study: IndexedStudy, runs: list[IndexedRun]) -> Markup:
    """A row an arm, a column a seed; runs that are trained first stand above."""
    by_place = {(run.folder.parent.name, run.folder.name): run for run in runs}
    spans = value_spans([run.summary for run in runs])
    seeds = study.seeds or sorted({run.summary.result.seed for run in runs})
    arms = study.arms or sorted({run.folder.parent.name for run in runs})
    rows = []
    for run in runs:
        if run.folder.parent.name == "starts":
            cell = element("td", cell_of(run, spans.get(comparable(run.summary))), colspan=max(1, len(seeds)))
            rows.append(element("tr", element("th", f"first: {run.folder.name}", scope="row"), cell))
    for arm in arms:
        cells = []
        for seed in seeds:
            own = by_place.get((arm, f"seed-{seed}"))
            span = spans.get(comparable(own.summary)) if own is not None else None
            cells.append(element("td", cell_of(own, span)))
        rows.append(element("tr", element("th", element("bdi", arm), scope="row"), *cells))
    heads = [
        element("th", "arm", scope="col"),
        *(element("th", f"seed {seed}", scope="col") for seed in seeds),
    ]
    table = element(
        "table",
        element("caption", "Runs of this study", class_="hidden"),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="grid-of-seeds",
    )
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Runs of this study")


def cell_of(run: IndexedRun | None, span: tuple[float, float] | None) -> Markup:
    """A run in a cell: its state, its curve, its score."""
    if run is None:
        return inline(state("waiting"))
    curve: Inline = sparkline(run.summary, span) if len(run.summary.curve.values) > 1 else ""
    bar = progress_bar(run.share) if run.grows else Markup("")
    whose = element("span", f"{run.folder.parent.name}, {run.folder.name}: ", class_="hidden")
    link = element("a", whose, inline(score_of(run)), href=page_of(run.address))
    return inline((state_of(run), " ")) + inline(curve) + bar + Markup(" ") + link


def actions(study: IndexedStudy) -> Markup:
    return template(
        "study_actions.html",
        address=study.address,
        runs=bool(study.process),
        ended=study.ended,
        there=page_of,
        command=shlex.join(["attnlab", "run", "--resume", "--out", str(study.folder)]),
    )


def page(laboratory: Laboratory, study: IndexedStudy, shown: Shown, reports: _Reports) -> ShellPage:
    """Its report under its grid where it has ended."""
    eyebrow = element("a", "Studies", href="/studies") + " / " + element("bdi", study.address)
    own: dict[str, Any] = {"title": study.name, "headline": shown["headline"], "here": "/studies"}
    own |= {"eyebrow": eyebrow, "events": page_of(f"studies/{study.address}", "events")}
    asked = element("p", study.question, class_="question") if study.question else Markup("")
    runs = element("section", element("h2", "Runs"), region("grid", Markup(shown["grid"])), class_="part")
    marks = [region("ended", shown["ended"], hidden=True)]
    top = [region("said", Markup(shown["said"])), region("actions", Markup(shown["actions"])), *marks]
    mark = shown.mark
    document = None if study.process or study.fault else _document(laboratory, study, reports)
    if isinstance(document, str) or document is None:
        told = (
            element("p", document or study.fault, class_="notice notice-invalid")
            if document or study.fault
            else ""
        )
        body = Markup("\n").join([*top, Markup(told), runs])
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


def _document(laboratory: Laboratory, study: IndexedStudy, reports: _Reports) -> DocumentPage | str | None:
    try:
        return reports.of(laboratory, study)
    except (ConfigError, RunError, *FAULTS) as error:
        return f"Its results cannot be read: {error}"
