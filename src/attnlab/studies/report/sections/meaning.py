"""What the differences come to, in words, and what may not be concluded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnlab.config.wording import sentence
from attnlab.documents.nodes import (
    Definitions,
    Heading,
    Inline,
    Items,
    Node,
    Reference,
    Sentence,
    emphasised,
)
from attnlab.documents.numbers import known, scaled
from attnlab.evaluation.comparison import Verdict
from attnlab.studies.outcome import ArmState
from attnlab.studies.report.metric_display import metric
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.wording import because_phrase, inequalities_sentence, places_of, size_phrase


def interpretation(study: StudyResults) -> list[Node]:
    """How to read it, what each arm comes to, and notes."""
    guide = study.card.get("How to read it", "")
    rows = [_told(study, arm) for arm in study.arms if not arm.baseline and _has_more(study, arm)]
    notes = [str(note) for note in study.outcome.notes]
    shown: list[Node] = [Sentence(emphasised(sentence(guide)), "prose")] if guide else []
    shown += [Definitions(rows, "told")] if rows else []
    shown += [Heading("Notes", 3, "notes"), Items(notes)] if notes else []
    return shown


def _has_more(study: StudyResults, arm: Arm) -> bool:
    """Whether more is to be said of an arm than its row of the result does."""
    comparison = study.comparison_of(arm)
    if comparison is None or not arm.sound or arm.outcome.reasons:
        return True
    return bool(comparison.unequal or comparison.doubts) or comparison.identical


def _told(study: StudyResults, arm: Arm) -> tuple[Inline, Inline]:
    named = (arm.untagged, " ", study.pill(arm))
    if not arm.sound:
        failed = arm.findings("fail")
        words = " ".join(finding.meaning or finding.found for finding in failed) or arm.reason
        names = ", ".join(finding.check for finding in failed)
        checks = (" (", Reference(f"check {names}", "checks"), ")") if failed else ()
        return named, (sentence(words), *checks)
    if arm.status in (ArmState.FAILED, ArmState.MISSING):
        return named, sentence(arm.reason or arm.word)
    comparison = study.comparison_of(arm)
    if comparison is not None:
        unequal = inequalities_sentence(comparison.unequal, comparison.arm, comparison.baseline)
        rests = comparison.identical or comparison.doubts  # else its row says what it rests on
        because = sentence(because_phrase(comparison)) if rests or not unequal else ""
        return named, " ".join(filter(None, [because, unequal, sentence(arm.reason)]))
    return named, sentence(". ".join(filter(None, [arm.shortfall or "not compared", arm.reason])))


def limits(study: StudyResults) -> list[Node]:
    """What the verdict does not show: the conditions it holds under, and what was not tested."""
    if not study.outcome.comparisons:
        return []
    sentences = [*_conditions(study), *_starts(study), *_missed(study), *_rates(study), *_metric(study)]
    return [Items(sentences)]


def _conditions(study: StudyResults) -> Iterator[str]:
    """The sizes, text and budget that it was seen at."""
    sizes = sorted({size for arm in study.arms if (size := arm.outcome.parameters) is not None})
    shown = list(dict.fromkeys(scaled(size) for size in sizes))
    models = (
        f"models of {' to '.join(shown[:: max(1, len(shown) - 1)])} parameters" if shown else "these models"
    )
    corpora = {
        _name(config["data"]["corpus"]) for config in study.outcome.configs.values() if "data" in config
    }
    text = f" on {corpora.pop()}" if len(corpora) == 1 else ""
    budget = f", {study.budget} per run" if study.budget else ""
    yield f"Measured with {models}{text}{budget}; other sizes, texts and budgets were not tested."


def _name(corpus: Mapping[str, Any]) -> str:
    return str(corpus.get("path") or corpus["kind"])


def _starts(study: StudyResults) -> Iterator[str]:
    """That what arms begin from is one model each."""
    if names := [start["name"] for start in study.outcome.starts]:
        yield (
            f"All seeds began from one pretrained model ({', '.join(names)}): the intervals do not include "
            "what another pretraining of the same kind would have changed."
        )


def _missed(study: StudyResults) -> Iterator[str]:
    """What inconclusive comparisons may have missed."""
    rows = [row for row in study.outcome.comparisons if row.metric == study.metric]
    rows = [row for row in rows if row.verdict is Verdict.INCONCLUSIVE and known(row.smallest)]
    if rows:
        places = places_of(rows)
        effects = [f"{size_phrase(row, row.smallest, places)} ({row.arm})" for row in rows]
        yield (
            f"Inconclusive is not “no difference”. With {rows[0].seeds} seeds a true difference below these "
            f"would probably have been missed (80% power): {', '.join(effects)}."
        )


def _rates(study: StudyResults) -> Iterator[str]:
    """Whether each arm had a learning rate of its own."""
    if study.facts.tuning:
        yield "Each arm's learning rate was chosen from the same grid, by the dev split."
        return
    rates = {rate for arm in study.arms if (rate := arm.outcome.learning_rate) is not None}
    if len(rates) == 1:
        yield (
            f"All arms used the learning rate {rates.pop():g}, not tuned for each: an arm might do better "
            "with another."
        )


def _metric(study: StudyResults) -> Iterator[str]:
    """What a loss is not."""
    if metric(study, study.metric).lower_is_better and "loss" in study.metric:
        yield "The loss measures prediction of held-out text, not the quality of generated text."
