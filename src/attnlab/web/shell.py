"""The frame of every page: navigation, head, body and what changes in it while somebody looks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from attnlab.documents import plotly_figures
from attnlab.documents.html import LONG, MEDIUM, blocks, figures_in, inline, page_styles
from attnlab.documents.markup import element, plain, shared_text
from attnlab.documents.nodes import Figure, Inline, Node

if TYPE_CHECKING:
    from jinja2 import Environment

PLACES = (
    ("Runs", "/"),
    ("Studies", "/studies"),
    ("New run", "/new"),
    ("Parts", "/parts"),
    ("Look inside", "/inside"),
)
SCRIPTS = ("plots.js", "tables.js")
"""Which make figures and tables interactive, here as in a page of one file."""
MODULES = ("live.js",)


@dataclass(frozen=True, kw_only=True)
class ShellPage:
    """A page in its frame. `regions` are the parts that change while somebody looks, by their names."""

    title: str
    headline: str | Markup
    body: Markup
    eyebrow: Inline | Markup = ""
    lead: Markup = Markup("")
    here: str = ""
    contents: Markup = Markup("")
    scripts: Sequence[str] = ()
    events: str = ""
    """The address of its events; empty for a page that stays as it is."""
    mark: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def html(self) -> str:
        length = len(self.headline)
        eyebrow = self.eyebrow if isinstance(self.eyebrow, Markup) else inline(self.eyebrow)
        return (
            _environment()
            .get_template("shell.html")
            .render(
                title=self.title,
                headline=self.headline,
                headline_region=bool(self.events),
                size="long" if length > LONG else "medium" if length > MEDIUM // 4 else "",
                eyebrow=eyebrow,
                lead=self.lead,
                body=self.body,
                here=self.here,
                places=PLACES,
                contents=self.contents,
                scripts=[*SCRIPTS, *MODULES, *self.scripts],
                modules=[*MODULES, *self.scripts],
                events=self.events,
                mark=self.mark,
                data={name: script_data(value) for name, value in self.data.items()},
            )
        )


def script_data(value: Any) -> Markup:
    """JSON inside a page: nothing in it can end the element that holds it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def region(name: str, *content: object, tag: str = "div", **attributes: object) -> Markup:
    """A part of a page that is told anew when it changes."""
    return element(tag, *content, data_live=name, **attributes)


def nodes(shown: Sequence[Node], level: int = 2) -> Markup:
    return blocks(shown, level, scripts=True)


def plots_of(shown: Sequence[Node]) -> dict[str, Any]:
    """What the figures among these nodes draw, by their anchors."""
    return {figure.anchor: plot_of(figure) for figure in figures_in(shown)}


def plot_of(figure: Figure) -> dict[str, Any]:
    return {"views": plotly_figures.views(figure)}


# ---------------------------------------------------------------- what the package serves as it is
SERVED = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
MADE = ("page.css", "plotly.js", "plots.js", "tables.js", "attention.js")
"""Which are not files of the page's own."""


def static_file(name: str) -> tuple[bytes, str] | None:
    """A script or a style by its name, and its type; None where there is no such file."""
    return _file(name) if name in (*MADE, *own_files()) else None


@cache
def own_files() -> frozenset[str]:
    return frozenset(file.name for file in (files("attnlab.web") / "static").iterdir())


@cache
def _file(name: str) -> tuple[bytes, str]:
    if name == "page.css":
        return page_styles().encode(), SERVED[".css"]
    if name == "plotly.js":
        return plotly_figures.source().encode(), SERVED[".js"]
    if name in ("plots.js", "tables.js"):
        return shared_text(name).encode(), SERVED[".js"]
    if name == "attention.js":
        return f"{attention_text(name)}\nexport {{ drawAttention }};\n".encode(), SERVED[".js"]
    return (files("attnlab.web") / "static" / name).read_bytes(), SERVED["." + name.rpartition(".")[2]]


def attention_text(name: str) -> str:
    """What the figure of attention maps is made of in a file of its own, as it is written: without torch."""
    return (files("attnlab.explain") / "templates" / name).read_text(encoding="utf-8")


def template(file: str, /, **values: object) -> Markup:
    """A form or the like."""
    return Markup(_environment().get_template(file).render(**values))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def shown(value: object) -> object:
        return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    return Environment(
        loader=PackageLoader("attnlab.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
