"""HTML made of text and elements, where whatever is not `Markup` is text; and pages of one file, under a
policy by which nothing else loads or runs."""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from attnlab.config.visible_text import visible_lines

if TYPE_CHECKING:
    from jinja2 import Environment, Template

EMPTY = frozenset({"input", "br"})


def plain(value: object) -> str:
    """Text of others with what would turn or hide its neighbours made visible."""
    return visible_lines(str(value))


def text(value: object) -> Markup:
    """Markup as it is, everything else as text."""
    return value if isinstance(value, Markup) else escape(plain(value))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """`class_` is class, `aria_label` is aria-label; None and "" leave one out, True gives it no value."""
    opening = f"<{tag}{''.join(_attribute(*given) for given in attributes.items())}>"
    if tag in EMPTY:
        return Markup(opening)
    return Markup(f"{opening}{''.join(map(text, children))}</{tag}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False or value == "":
        return ""
    written = name.rstrip("_").replace("_", "-")
    return f" {written}" if value is True else f' {written}="{text(value)}"'


def lines_of(parts: list[Markup]) -> Markup:
    return Markup("\n").join(parts)


# ---------------------------------------------------------------- pages
def _shown(value: object) -> object:
    """What a template is given: text of others is made visible, and then escaped by it."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not with every start of the command line

    return Environment(
        loader=PackageLoader("attnlab.documents"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def pack(content: str | bytes) -> str:
    """Compressed, as letters: plotly takes two megabytes instead of five."""
    data = content.encode() if isinstance(content, str) else content
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def policy(*scripts: str) -> str:
    """Only these scripts run, and nothing is fetched: the browser itself holds the page to it."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {rest}"


def shared_template(name: str) -> Template:
    """One of those that all pages share."""
    return _environment().get_template(name)


@cache
def shared_text(name: str) -> str:
    """A script, as it is written."""
    return (files("attnlab.documents") / "templates" / name).read_text(encoding="utf-8")
