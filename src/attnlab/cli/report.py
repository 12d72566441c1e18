"""`attnlab report`: a study's figures and tables as files for a paper."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import JsonOption, emit, out
from attnlab.config.wording import count_of, first_few
from attnlab.documents.nodes import strong


def report(
    study: Annotated[Path, typer.Argument(help="The folder of a study.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder to write, such as paper.")],
    pdf: Annotated[
        bool, typer.Option("--pdf/--no-pdf", help="PDF beside SVG (needs attnlab[paper]).")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Write a report's figures as SVG and PDF, and its tables as LaTeX and CSV, for a column of a paper."""
    from attnlab.studies.report.paper import write_paper
    from attnlab.studies.runner import read_outcome

    written = write_paper(read_outcome(study), to, pdf=pdf)
    if json:
        return emit({**asdict(written), "folder": str(to)})
    out.say(f"{count_of(len(written.figures), 'figure')}: {first_few(written.figures, 4)}.")
    out.say(f"{count_of(len(written.tables), 'table')}: {first_few(written.tables, 4)}.")
    if written.screen_only:
        out.say(f"Only on the page, report.html: {first_few(written.screen_only, 4)}.")
    out.say("Written to ", strong(str(to)), ".")
    return None
