"""The report as a document: the verdict, what has to be known before it is believed, and the sections."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from attnlab.config.wording import count_of, in_words, phrase, sentence
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
from attnlab.runs.findings import collapse_of, collapse_sentence, shortfall_sentence
from attnlab.runs.reason import reasons_phrase
from attnlab.studies.evidence import unlearned
from attnlab.studies.outcome import OF_MAJORITY, ArmState
from attnlab.studies.report.metric_display import metric
from attnlab.studies.report.sections import parts
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.wording import seeds_phrase, short_phrase, words_of

FEW_ARMS = 2
"""Of which each is told what it lacks; of more, all of them at once."""

Thing = TypeVar("Thing")
Key = TypeVar("Key", bound=Hashable)


def report(study: StudyResults) -> DocumentPage:
    verdicts = [(arm.untagged, " ", _verdict(study, arm)) for arm in study.arms]
    rows = [] if study.outcome.comparisons else [Items(verdicts, "verdicts", label="Verdict of each arm")]
    return DocumentPage(
        kind="study",
        headline=study.outcome.headline,
        nodes=parts(study),
        name=study.name,
        date=study.outcome.date,
        question=study.facts.question,
        lead=[*_notices(study), *rows, _scope(study)],
        version=study.outcome.versions.get("attnlab") or "",
        beside="report.md, runs.csv, comparisons.csv and results.json",
    )


def _notices(study: StudyResults) -> Iterator[Notice]:
    """What has to be known before anything is believed: one a fault, which names its arms."""
    if study.facts.quick:
        budget = f" ({study.budget} per run)" if study.facts.budget else ""
        told = f" Its budget is small{budget}: enough to see that everything works, not enough to rely on. "
        again = ("Run it without ", Code("--quick"), " for an answer.")
        yield Notice((strong("This was a quick study."), told, *again), "quick")
    if len(study.seeds) == 1:
        told = " Seed noise is unknown, so no interval can be given and no difference can be called real."
        yield Notice((strong("One seed."), told))
    for reasons, refused in _alike(study.outcome.refused, lambda arm: arm.reasons):
        told = f"✗ {in_words(arm.name for arm in refused)} {_were(refused)} refused: cannot be built."
        yield Notice((strong(told), f" {sentence(reasons_phrase(reasons))}"), "invalid")
    short = [reason for arm in study.arms for reason in unlearned(arm.name, arm.runs, study.metric)]
    if short:
        told = short_phrase(short) if len(short) > FEW_ARMS else reasons_phrase(short)
        yield Notice((strong("Not trained long enough."), f" {sentence(told)}"), "quick")
    if collapsed := [arm for arm in study.arms if _collapses(arm)]:
        yield _collapse(collapsed)
    for kinds, arms in _alike(study.unsound, _failures):
        why: Inline = _checks(arms[0]) if kinds else f"{sentence(arms[0].reason)} "
        if kinds or not _collapses(arms[0]):
            told = f"✗ {in_words(arm.name for arm in arms)} {'are' if len(arms) > 1 else 'is'} invalid."
            yield Notice((strong(told), " ", why, _struck(arms)), "invalid")
    finished = [arm for arm in study.arms if arm.status is ArmState.FINISHED and arm.outcome.reasons]
    for reasons, arms in _alike(finished, lambda arm: arm.outcome.reasons):
        named = in_words(arm.name for arm in arms)
        yield Notice((strong(f"{named}:"), f" {sentence(reasons_phrase(reasons))}"))


def _struck(arms: Sequence[Arm]) -> Inline:
    whose = "Their" if len(arms) > 1 else "Its"
    return f"{whose} numbers are ", toned(Tone.STRUCK, "struck"), " or marked ✗ wherever they are shown."


def _were(things: Sequence[object]) -> str:
    return "were" if len(things) > 1 else "was"


def _alike(things: Sequence[Thing], key: Callable[[Thing], Key]) -> list[tuple[Key, list[Thing]]]:
    """Things by what they have in common."""
    groups: dict[Key, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return list(groups.items())


def _collapses(arm: Arm) -> dict[int, str]:
    """Of the seeds that learned nothing, or less than words alone say: what is to be told of them."""
    said = {}
    for run in arm.runs:
        after = [one for one in run.checks if one.when == "after" and one.check != "learned"]
        said[run.seed] = collapse_sentence(after) or shortfall_sentence(after)
    return {seed: text for seed, text in said.items() if text}


def _collapse(arms: Sequence[Arm]) -> Notice:
    """That arms learned nothing, with what to try."""
    named = in_words(f"{arm.name} ({seeds_phrase(list(_collapses(arm)), len(arm.runs))})" for arm in arms)
    invalid = [arm for arm in arms if not arm.sound]
    seed, first = next(iter(_collapses(arms[0]).items()))
    if len(arms) > 1 or len(_collapses(arms[0])) > 1:  # whose numbers these are
        first = f"Of {arms[0].name} with seed {seed}: {first}"
    told = strong(f"✗ {named} {'are' if len(arms) > 1 else 'is'} invalid." if invalid else f"{named}:")
    if not invalid:
        return Notice((told, f" {first}"), "quick")
    return Notice((told, f" {first} ", _struck(invalid)), "invalid")


def _failures(arm: Arm) -> tuple[tuple[str, str], ...]:
    """The checks that an arm failed, and how; what is told of a collapse is not told again."""
    told = OF_MAJORITY if any(collapse_of(run.checks) for run in arm.runs) else ()
    return tuple((one.check, one.kind) for one in arm.findings("fail") if one.check not in told)


def _checks(arm: Arm) -> Inline:
    """The checks that an arm failed, and what that means."""
    checks = [check for check, _ in _failures(arm)]
    return tuple(
        (
            *("The check ", Reference(toned(Tone.ITALIC, one.check), "checks"), " failed. "),
            f"{sentence(one.meaning or one.found)} ",
        )
        for one in arm.findings("fail")
        if one.check in checks
    )


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
