"""What was started from the page and has no record yet: it becomes a run or a study, or says why not."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from attnlab.documents.html import inline
from attnlab.documents.markup import element
from attnlab.documents.nodes import Code, state
from attnlab.web.addresses import folder_at
from attnlab.web.laboratory import Laboratory
from attnlab.web.live import Regions, Shown
from attnlab.web.shell import ShellPage, region
from attnlab.web.started_processes import StartedProcess
from attnlab.web.views.rows import page_of


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()

    @router.get("/starting/{address:path}", response_class=HTMLResponse)
    async def starting(address: str) -> Response:
        """What was started, until its own page is there."""
        folder_at(laboratory.root, address)
        name = f"starting/{address}"
        topic = laboratory.live.topic(name, lambda: regions_of(laboratory, address))
        return await laboratory.live.page(topic, lambda shown: page(laboratory, address, shown).html())

    return router


def page(laboratory: Laboratory, address: str, shown: Shown) -> ShellPage:
    return ShellPage(
        title="Starting",
        headline=shown["headline"],
        eyebrow=element("a", "Runs", href="/") + " / " + element("bdi", address),
        body=region("said", Markup(shown["said"])) + region("there", shown["there"], hidden=True),
        here="/",
        scripts=("starting.js",),
        events=page_of(f"starting/{address}", "events"),
        mark=shown.mark,
    )


def last_words(started: StartedProcess | None) -> Markup:
    """Why what was started here ended before its time, as it said itself; nothing of what did not fail."""
    if started is None or not started.failed:
        return Markup("")
    why = element("p", f"✗ {started.words} ended with code {started.code}. Its last words:")
    log = element("pre", started.log, class_="command", tabindex=0)
    return element("div", why, log, class_="notice notice-invalid")


def regions_of(laboratory: Laboratory, address: str) -> Regions:
    """Its command and what it says, and where its own page is as soon as there is one."""
    index = laboratory.index
    there = page_of(address) if address in index.runs else ""
    there = page_of(address, "studies") if address in index.studies else there
    folder = laboratory.root / address
    started = laboratory.processes.started.get(folder)
    if started is None:
        return {"headline": "Not started from here", "said": "", "there": there}
    code = started.code
    word = "preparing" if code is None else "finished" if code == 0 else "failed"
    said = element("p", inline((state(word), " ", Code(started.words))))
    said += element("pre", started.log or "Nothing said yet.", class_="command", tabindex=0)
    headline = "Starting" if code is None else f"It ended with code {code} before it had a record"
    return {"headline": headline, "said": str(said), "there": "" if code else there}
