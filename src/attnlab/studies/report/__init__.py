"""A study's report: one page that needs no network, the same in Markdown, and its numbers as CSV."""

from __future__ import annotations

from pathlib import Path

from attnlab.documents import html, markdown
from attnlab.runs.atomic import replace_bytes
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.report.page import report
from attnlab.studies.report.sheets import comparisons, runs
from attnlab.studies.report.study_results import StudyResults

__all__ = ["write"]


def write(outcome: StudyOutcome, folder: Path) -> Path:
    """Write report.html, report.md, runs.csv and comparisons.csv; returns the page's path.

    A part that an outcome does not have leaves its section out.
    """
    study = StudyResults(outcome)
    document = report(study)
    folder.mkdir(parents=True, exist_ok=True)
    written = {
        "report.html": html.page(document, scripts=True),
        "report.md": markdown.page(document),
        "runs.csv": runs(study),
        "comparisons.csv": comparisons(study),
    }
    for name, text in written.items():
        replace_bytes(folder / name, text.encode())
    return folder / "report.html"
