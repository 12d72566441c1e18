"""What a model does inside: heads, heads removed, texts patched; and parts without a model."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from attnlab.config.setting_cards import overview
from attnlab.documents.markup import element
from attnlab.web.laboratory import Laboratory
from attnlab.web.shell import ShellPage, attention_text, template
from attnlab.web.views.rows import page_of
from attnlab.web.views.try_it import model_page

MOST_RUNS = 24
"""Runs that the page names; the list of runs has them all."""


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()

    @router.get("/inside", response_class=HTMLResponse)
    def parts() -> str:
        """Parts of a model as pictures that follow their options, and the runs to look into."""
        runs = sorted(laboratory.index.runs.values(), key=lambda run: run.heard, reverse=True)
        body = template(
            "parts_inside.html",
            runs=[(run.address, page_of(run.address, "inside")) for run in runs[:MOST_RUNS]],
            more=max(0, len(runs) - MOST_RUNS),
            schemes=[name for name in overview()["positions"] if name != "none"],
        )
        return ShellPage(
            title="Look inside",
            headline="Look inside: attention, positions and masks",
            eyebrow="without a model, or in one of yours",
            body=element("div", body, class_="asking"),
            here="/inside",
            scripts=("shapes.js",),
        ).html()

    @router.get("/inside/{address:path}", response_class=HTMLResponse)
    def inside(address: str) -> str:
        """The heads of a run's model on a text, and what changes without them."""
        run = laboratory.run(address)
        body = template(
            "inside.html",
            ask=page_of(run.address, "api/ask/{}"),
            there=page_of(run.address, "try"),
            frame=Markup(attention_text("attention.html")),
        )
        return model_page(run, f"Look inside {run.summary.name}", body, ("inside.js",)).html()

    return router
