"""A run's model, asked by a person: whatever it was trained for, and where a text surprises it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from attnlab.documents.markup import element
from attnlab.web.indexed import IndexedRun
from attnlab.web.laboratory import Laboratory
from attnlab.web.shell import ShellPage, template
from attnlab.web.views.rows import page_of


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()

    @router.get("/try/{address:path}", response_class=HTMLResponse)
    def try_it(address: str) -> str:
        """The page on which a model is asked; it is opened when the page asks for it."""
        run = laboratory.run(address)
        body = template(
            "try_it.html",
            ask=page_of(run.address, "api/ask/{}"),
            inside=page_of(run.address, "inside"),
        )
        return model_page(run, f"Try {run.summary.name}", body, ("try.js",)).html()

    return router


def model_page(run: IndexedRun, headline: str, body: object, scripts: tuple[str, ...]) -> ShellPage:
    """A page about a run's model, under the run."""
    eyebrow = element("a", "Runs", href="/") + " / "
    eyebrow += element("a", element("bdi", run.address), href=page_of(run.address))
    return ShellPage(
        title=headline,
        headline=headline,
        eyebrow=eyebrow,
        body=element("div", body, class_="asking"),
        scripts=scripts,
    )
