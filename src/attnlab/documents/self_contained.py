"""A page that is one file: scripts and data packed in, and a policy under which nothing else loads."""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from attnlab.config.visible_text import visible_lines

if TYPE_CHECKING:
    from jinja2 import Environment, Template


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not with every start of the command line

    return Environment(
        loader=PackageLoader("attnlab.documents"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        finalize=plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def plain(value: object) -> object:
    """What a template is given: text of others with what would turn or hide its neighbours made visible."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def pack(content: str | bytes) -> str:
    """Compressed, as letters: plotly takes two megabytes instead of five."""
    held = content.encode() if isinstance(content, str) else content
    return base64.b64encode(gzip.compress(held, 9, mtime=0)).decode()


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
