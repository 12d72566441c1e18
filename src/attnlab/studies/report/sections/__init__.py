"""The report's sections, in order. One is a function from a study to what it shows, which may be nothing."""

from __future__ import annotations

from collections.abc import Callable

from attnlab.documents.nodes import Node, Section
from attnlab.studies.report.sections.alignment import alignment
from attnlab.studies.report.sections.arms import arms, baselines
from attnlab.studies.report.sections.attention import attention
from attnlab.studies.report.sections.checks import checks
from attnlab.studies.report.sections.compared import changes, hypothesis, starts
from attnlab.studies.report.sections.curves import by_epoch, curves
from attnlab.studies.report.sections.meaning import interpretation, limits
from attnlab.studies.report.sections.own import figures, tables
from attnlab.studies.report.sections.paired import paired
from attnlab.studies.report.sections.predictions import by_length, confused, reliable, texts_alone
from attnlab.studies.report.sections.record import configs, origin, runs, tuning
from attnlab.studies.report.sections.result import differences
from attnlab.studies.report.sections.texts import lengths, probes, samples, truncation
from attnlab.studies.report.sections.tradeoff import tradeoff
from attnlab.studies.report.study_results import StudyResults

Build = Callable[[StudyResults], list[Node]]
PARTS: dict[str, dict[Build, str]] = {
    "Result": {differences: ""},
    "What was compared": {changes: "Arms", starts: "What arms begin from", hypothesis: "Hypothesis"},
    "What it means": {interpretation: "", limits: "What it does not show"},
    "Details": {
        arms: "Metrics of each arm",
        baselines: "Baselines",
        by_epoch: "By epoch",
        tradeoff: "Quality against cost",
        curves: "Training curves",
        paired: "Difference from the baseline while training",
        texts_alone: "Losses with and without later tokens",
        confused: "Confused classes",
        reliable: "Reliability",
        by_length: "Written texts by the length of their source",
        figures: "Figures",
        tables: "Tables",
        probes: "Probe sentences",
        samples: "Samples",
        attention: "Attention",
        alignment: "Alignment of source and target",
    },
    "Checks": {checks: ""},
    "Record": {
        lengths: "Lengths of the texts",
        truncation: "Text that was cut off",
        tuning: "Learning rates",
        runs: "Every run",
        configs: "Configs",
        origin: "Run it again",
    },
}
"""The sections of each part with their titles; one without stands right below the part's own."""


def parts(study: StudyResults) -> list[Section]:
    """Every part with those of its sections that have something to show."""
    shown = []
    for title, builds in PARTS.items():
        inside: list[Node] = []
        for build, name in builds.items():
            nodes = build(study)
            inside += [Section(name, nodes, build.__name__)] if name and nodes else nodes
        if inside:
            shown.append(Section(title, inside))
    return shown
