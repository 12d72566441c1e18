"""The result: each arm against the baseline, with the tests behind it, and arms that learned nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from attnlab.config.wording import phrase
from attnlab.documents.nodes import (
    Details,
    Forest,
    ForestRow,
    Form,
    Inline,
    Items,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    TableRow,
    VerdictPill,
    strong,
)
from attnlab.documents.numbers import estimate_of
from attnlab.evaluation.comparison import Comparison, Verdict
from attnlab.metrics.metric import Estimate
from attnlab.runs.findings import Finding, collapse_sentence
from attnlab.runs.result import RunResult
from attnlab.studies.report.metric_display import WITHOUT_LEAK, DisplayedMetric, metric
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.shown import measured_number
from attnlab.studies.wording import seeds_phrase, verdict_phrase


@dataclass(frozen=True)
class ShownDifference:
    """A row of a forest: a comparison, or an arm that leaks by the loss that a leak cannot lower."""

    comparison: Comparison
    estimate: Estimate
    without_leak: bool = False


def collapses(study: StudyResults) -> list[Node]:
    """One sentence for each arm whose predictions came to the majority's share, with what to try."""
    sentences = [strong(one) for arm in study.arms if (one := _collapse(arm))]
    return [Items(sentences, "prose collapsed")] if sentences else []


def _collapse(arm: Arm) -> str:
    sentences = {run.seed: collapse_sentence(_at_the_end(run)) for run in arm.runs}
    seeds = [seed for seed, told in sentences.items() if told]
    if not seeds:
        return ""
    return f"{arm.name} ({seeds_phrase(seeds, len(arm.runs))}). {sentences[seeds[0]]}"


def _at_the_end(run: RunResult) -> list[Finding]:
    return [one for one in run.checks if one.when == "after"]


def differences(study: StudyResults) -> list[Node]:
    """A forest a metric, the study's own first, and the tests behind the verdicts."""
    compared = [one for one in study.outcome.comparisons if study.arm(one.arm)]
    names = sorted(dict.fromkeys(one.metric for one in compared), key=lambda name: name != study.metric)
    shown = [
        (metric(study, name), [_compared(one) for one in compared if one.metric == name]) for name in names
    ]
    without_leak = [
        ShownDifference(one, one.without_leak, without_leak=True) for one in compared if one.without_leak
    ]
    if without_leak:
        shown.append((metric(study, WITHOUT_LEAK.name), without_leak))
    forests: list[Node] = [_forest(study, measure, rows) for measure, rows in shown]
    return [*forests, _tests(study, shown)] if forests else []


def _compared(one: Comparison) -> ShownDifference:
    return ShownDifference(one, Estimate(one.difference, one.low, one.high, one.seeds))


def _sound(study: StudyResults, measure: DisplayedMetric, row: ShownDifference) -> bool:
    invalid = row.comparison.verdict is Verdict.INVALID
    return measure.honest or (study.sound(row.comparison.arm) and not invalid)


def _difference(study: StudyResults, measure: DisplayedMetric, row: ShownDifference) -> Number:
    form: Form = "signed" if measure.form in ("plain", "signed") else measure.form
    return measured_number(row.estimate, form=form, sound=_sound(study, measure, row))


def _arm(study: StudyResults, row: ShownDifference) -> Arm:
    return next(arm for arm in study.arms if arm.name == row.comparison.arm)


def _forest(study: StudyResults, measure: DisplayedMetric, rows: list[ShownDifference]) -> Forest:
    own = bool(study.facts.against)
    meaning = f", in {phrase(measure.definition)}" if measure.definition else ""
    against = "its own baseline" if own else study.baseline
    return Forest(
        [_forest_row(study, measure, row, own=own) for row in rows],
        caption=(strong(measure.title.capitalize()), f": each arm minus {against}{meaning}"),
        left="better" if measure.lower_is_better else "worse",
        right="worse" if measure.lower_is_better else "better",
    )


def _forest_row(
    study: StudyResults, measure: DisplayedMetric, row: ShownDifference, *, own: bool
) -> ForestRow:
    arm, verdict = _arm(study, row), _pill(row)
    failed = [] if arm.sound else [finding.check for finding in arm.findings("fail")]
    phrase = "scored with later tokens removed" if measure.honest else ", ".join([verdict.words, *failed])
    return ForestRow(
        arm.shown,
        _difference(study, measure, row),
        replace(verdict, words=phrase, plain=True),
        beside=f"minus {row.comparison.baseline}" if own else "",
        sets_scale=measure.honest or arm.sound,
    )


def _pill(row: ShownDifference) -> VerdictPill:
    """The verdict of a comparison; a loss without a leak has none of its own."""
    if row.without_leak:
        return VerdictPill("")
    return VerdictPill(row.comparison.verdict.value, verdict_phrase(row.comparison))


def _tests(study: StudyResults, shown: list[tuple[DisplayedMetric, list[ShownDifference]]]) -> Details:
    effect = TableColumn("MDE", "Minimum detectable effect at 80% power.", right=True, alike=False)
    numbers = [TableColumn(name, right=True, alike=False) for name in ("difference", "p", "p corrected")]
    rows = [_test(study, measure, row) for measure, compared in shown for row in compared]
    table = Table(
        ["arm", "metric", *numbers, effect, TableColumn("texts", right=True), "verdict"], rows, look="wide"
    )
    note = (
        "Pairs are by seed. p is corrected for the number of comparisons. MDE is the minimum detectable "
        "effect at 80% power: a smaller difference would probably have been missed; n counts seeds, texts "
        "are the dev texts of each."
    )
    return Details("Tests behind the verdicts", [table, Sentence(note, "fine")])


def _test(study: StudyResults, measure: DisplayedMetric, row: ShownDifference) -> TableRow:
    sound, one = _sound(study, measure, row), row.comparison
    chances: list[Inline] = [
        "unknown" if row.without_leak or math.isnan(p) else Number(p, form="chance", sound=sound)
        for p in (one.p, one.p_corrected)
    ]
    numbers = (None, None) if row.without_leak else (one.smallest, one.documents)
    smallest = estimate_of({"value": numbers[0]}, form=measure.form, sound=sound)
    texts = estimate_of({"value": numbers[1]}, form="count")
    difference = _difference(study, measure, row)
    cells = (_arm(study, row).shown, measure.title, difference, *chances, smallest, texts, _pill(row))
    return TableRow(cells, sound=sound)
