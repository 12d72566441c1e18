"""The page: sections filled in, plots packed, and a policy under which nothing else can load or run."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, TemplateNotFound
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from attnlab.config.visible_text import visible
from attnlab.documents.palette import variables
from attnlab.documents.self_contained import environment_of, pack, plain, policy
from attnlab.studies.report.metric_display import metric
from attnlab.studies.report.sections import PARTS, ReportSection
from attnlab.studies.report.study_results import StudyResults

Filled = list[tuple[str, list[tuple[ReportSection, dict[str, Any]]]]]

VERDICTS = {
    "better": "▲",
    "worse": "▼",
    "no difference": "≈",
    "inconclusive": "?",
    "identical": "≡",
    "invalid": "✗",
    "failed": "✗",
    "not run": "–",
    "baseline": "●",
}


def html(study: StudyResults, parts: Filled) -> str:
    """One file that needs nothing else."""
    plots = {p.id: p.data() for _, found in parts for _, context in found for p in context.get("plots", ())}
    script = _script("page.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            study=study,
            parts=_rendered(parts, study, "html"),
            facts=study.facts,
            metric=metric(study, study.metric),
            palette=[variables(dark=False), variables(dark=True)],
            script=Markup(script),
            plotly=_plotly()[1] if plots else "",
            plots=pack(json.dumps(plots, allow_nan=False, separators=(",", ":"))) if plots else "",
            policy=policy(script, *([_plotly()[0]] if plots else [])),
        )
    )


def markdown(study: StudyResults, parts: Filled) -> str:
    """The same as text: what Markdown cannot show is left out."""
    shown = _rendered(parts, study, "md")
    page = _environment().get_template("page.md").render(study=study, parts=shown, facts=study.facts)
    return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def filled(study: StudyResults) -> Filled:
    """Every part with those of its sections that have something to show."""
    parts = [
        (part, [(s, found) for s in sections if (found := s.build(study))])
        for part, sections in PARTS.items()
    ]
    return [(part, found) for part, found in parts if found]


def _rendered(
    parts: Filled, study: StudyResults, kind: str
) -> list[tuple[str, list[tuple[ReportSection, Markup]]]]:
    shown = [(part, [(s, _section(s, c, study, kind)) for s, c in found]) for part, found in parts]
    kept = [(part, [(s, text) for s, text in found if text]) for part, found in shown]
    return [(part, found) for part, found in kept if found]


def _section(section: ReportSection, context: dict[str, Any], study: StudyResults, kind: str) -> Markup:
    try:
        template = _environment().get_template(f"{section.name}.{kind}")
    except TemplateNotFound:
        return Markup("")
    return Markup(template.render(study=study, **context))


@cache
def _environment() -> Environment:
    environment = environment_of("attnlab.studies.report")
    environment.filters |= {
        "md": plain_text,
        "emphasis": emphasis,
        "sentence": sentence,
        "phrase": phrase,
        "slug": slug,
        "kind": kind,
        "sign": sign,
    }
    return environment


def plain_text(value: Any) -> str:
    """Text that Markdown leaves as it is, on one line."""
    line = visible(" ".join(str(value).split())).replace("&", "&amp;")
    line = re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", line).replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"^(\d{0,9})([-+.)]|-{3,})(?= |$)", r"\1\\\2", line)  # nor its beginning a list or rule
    return re.sub(r"(?i)\b(https?|ftp|www)([:.])", r"\1&#8203;\2", line)  # no address becomes a link


def sentence(text: str) -> str:
    """With a capital letter, unless it begins with a formula, and a full stop."""
    text = text.strip()
    word = text[1:2].isalpha() or text[1:2].isspace()
    return (
        (text[:1].upper() if word else text[:1]) + text[1:] + ("" if not text or text[-1] in ".!?…" else ".")
    )


def phrase(text: str) -> str:
    """Within a sentence: without its capital and full stop."""
    return text[:1].lower() + text[1:].rstrip(".")


def emphasis(text: str) -> Markup:
    """*Words* between asterisks, as docstrings have them."""
    return Markup(re.sub(r"\*(\w[^*]*)\*", r"<em>\1</em>", str(escape(plain(text)))))


def slug(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


def kind(verdict: str) -> str:
    """The kind of a verdict, without what it says of sizes: better, worse, no-difference, …"""
    return slug(next((name for name in VERDICTS if verdict.startswith(name)), "other"))


def sign(verdict: str) -> str:
    return next((mark for name, mark in VERDICTS.items() if verdict.startswith(name)), "·")


@cache
def _plotly() -> tuple[str, str]:
    """Plotly from its package: its source, and that packed."""
    source = get_plotlyjs()
    return source, pack(source)


@cache
def _script(name: str) -> str:
    return (files("attnlab.studies.report") / "templates" / name).read_text(encoding="utf-8")
