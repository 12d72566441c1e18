"""The report's sections, in order. One is a function from a study to what its templates need, or to nothing.

Its templates are `templates/NAME.html` and, where Markdown can show it, `templates/NAME.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnlab.studies.report.sections.arms import arms
from attnlab.studies.report.sections.attention import attention
from attnlab.studies.report.sections.baselines import baselines
from attnlab.studies.report.sections.by_epoch import by_epoch
from attnlab.studies.report.sections.changes import changes
from attnlab.studies.report.sections.checks import checks
from attnlab.studies.report.sections.collapses import collapses
from attnlab.studies.report.sections.configs import configs
from attnlab.studies.report.sections.curves import curves
from attnlab.studies.report.sections.differences import differences
from attnlab.studies.report.sections.figures import figures
from attnlab.studies.report.sections.hypothesis import hypothesis
from attnlab.studies.report.sections.interpretation import interpretation
from attnlab.studies.report.sections.lengths import lengths
from attnlab.studies.report.sections.limits import limits
from attnlab.studies.report.sections.origin import origin
from attnlab.studies.report.sections.probes import probes
from attnlab.studies.report.sections.runs import runs
from attnlab.studies.report.sections.samples import samples
from attnlab.studies.report.sections.starts import starts
from attnlab.studies.report.sections.tables import tables
from attnlab.studies.report.sections.truncation import truncation
from attnlab.studies.report.sections.tuning import tuning
from attnlab.studies.report.study_results import StudyResults

Build = Callable[[StudyResults], dict[str, Any] | None]


@dataclass(frozen=True)
class ReportSection:
    title: str  # empty where the part's own heading says it all
    build: Build

    @property
    def name(self) -> str:
        return self.build.__name__


PARTS: dict[str, tuple[ReportSection, ...]] = {
    "Result": (ReportSection("", collapses), ReportSection("", differences)),
    "What was compared": (
        ReportSection("Arms", changes),
        ReportSection("What arms begin from", starts),
        ReportSection("Hypothesis", hypothesis),
    ),
    "What it means": (ReportSection("", interpretation), ReportSection("What it does not show", limits)),
    "Details": (
        ReportSection("Metrics of each arm", arms),
        ReportSection("Baselines", baselines),
        ReportSection("By epoch", by_epoch),
        ReportSection("Training curves", curves),
        ReportSection("Figures", figures),
        ReportSection("Tables", tables),
        ReportSection("Probe sentences", probes),
        ReportSection("Samples", samples),
        ReportSection("Attention", attention),
    ),
    "Checks": (ReportSection("", checks),),
    "Record": (
        ReportSection("Lengths of the texts", lengths),
        ReportSection("Text that was cut off", truncation),
        ReportSection("Learning rates", tuning),
        ReportSection("Every run", runs),
        ReportSection("Configs", configs),
        ReportSection("Run it again", origin),
    ),
}
