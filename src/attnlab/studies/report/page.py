"""The report as a document: the verdict, what has to be known before it is believed, and the sections."""

from __future__ import annotations

from collections.abc import Iterator

from attnlab.config.wording import count_of, phrase, sentence
from attnlab.documents.nodes import (
    Code,
    DocumentPage,
    Inline,
    Items,
    Notice,
    Reference,
    Sentence,
    Tone,
    VerdictPill,
    strong,
    toned,
)
from attnlab.evaluation.comparison import Verdict
from attnlab.studies.outcome import ArmState
from attnlab.studies.report.metric_display import metric
from attnlab.studies.report.sections import parts
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.wording import words_of


def report(study: StudyResults) -> DocumentPage:
    verdicts = [(arm.untagged, " ", _verdict(study, arm)) for arm in study.arms]
    return DocumentPage(
        kind="study",
        headline=study.outcome.verdict,
        nodes=parts(study),
        name=study.name,
        date=study.outcome.date,
        question=study.facts.question,
        lead=[*_notices(study), Items(verdicts, "verdicts", label="Verdict of each arm"), _scope(study)],
        version=study.outcome.versions.get("attnlab") or "",
        beside="report.md, runs.csv, comparisons.csv and results.json",
    )


def _notices(study: StudyResults) -> Iterator[Notice]:
    """What has to be known before anything is believed."""
    if study.facts.quick:
        budget = f" ({study.budget} per run)" if study.facts.budget else ""
        told = f" Its budget is small{budget}: enough to see that everything works, not enough to rely on. "
        again = ("Run it without ", Code("--quick"), " for an answer.")
        yield Notice((strong("This was a quick study."), told, *again), "quick")
    if len(study.seeds) == 1:
        told = " Seed noise is unknown, so no interval can be given and no difference can be called real."
        yield Notice((strong("One seed."), told))
    for arm in study.outcome.refused:
        refused = strong(f"✗ {arm.name} was refused: it cannot be built.")
        yield Notice((refused, f" {sentence(arm.reason)}"), "invalid")
    for one in study.unsound:
        yield Notice((strong(f"✗ {one.name} is not sound."), " ", _failures(one), *STRUCK), "invalid")
    for one in study.arms:
        if one.status is ArmState.FINISHED and one.reason:
            yield Notice((strong(f"{one.name}:"), f" {sentence(one.reason)}"))


STRUCK = ("Its numbers are ", toned(Tone.STRUCK, "struck"), " wherever they are shown.")


def _failures(arm: Arm) -> Inline:
    """The checks that an arm failed, and what that means."""
    failures: list[Inline] = [
        (
            *("The check ", Reference(toned(Tone.ITALIC, finding.check), "checks"), " failed. "),
            f"{sentence(finding.meaning or finding.found)} ",
        )
        for finding in arm.findings("fail")
    ]
    return tuple(failures) or f"{sentence(arm.reason)} "


def _verdict(study: StudyResults, arm: Arm) -> VerdictPill:
    if arm.baseline and arm.status not in (ArmState.FAILED, ArmState.MISSING):
        return VerdictPill("baseline")
    comparison = study.comparison_of(arm)
    same = comparison is not None and comparison.verdict is Verdict.SAME and arm.sound
    return study.pill(arm, words_of(comparison) if same else "")


def _scope(study: StudyResults) -> Sentence:
    measure = metric(study, study.metric)
    budget = f", {study.budget} per run" if study.budget else ""
    sizes = f"{count_of(len(study.arms), 'arm')}, {count_of(len(study.seeds), 'seed')} each{budget}."
    return Sentence(f"{sizes} Verdicts are by {measure.title}: {phrase(measure.definition)}.", "scope")
