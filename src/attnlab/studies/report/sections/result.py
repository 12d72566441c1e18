"""The result: each arm against the baseline, with the tests behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from attnlab.config.wording import first_upper, sentence
from attnlab.documents.nodes import (
    Details,
    Forest,
    ForestRow,
    Inline,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    TableRow,
    VerdictPill,
    listed,
    strong,
)
from attnlab.documents.numbers import estimate_of, known
from attnlab.evaluation.comparison import Comparison, Verdict
from attnlab.metrics.metric import Estimate
from attnlab.studies.report.metric_display import WITHOUT_LEAK, DisplayedMetric, metric
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.shown import measured_number
from attnlab.studies.wording import chance, difference_number, verdict_phrase


@dataclass(frozen=True)
class ShownDifference:
    """A row of a forest: a comparison, or an arm that leaks by the loss that a leak cannot lower."""

    comparison: Comparison
    estimate: Estimate
    without_leak: bool = False


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
    forests: list[Node] = [
        _forest(study, measure, rows, legend=place == 0) for place, (measure, rows) in enumerate(shown)
    ]
    return [*forests, _tests(study, shown)] if forests else []


def _compared(one: Comparison) -> ShownDifference:
    return ShownDifference(one, Estimate(one.difference, one.low, one.high, one.seeds))


def _sound(study: StudyResults, measure: DisplayedMetric, row: ShownDifference) -> bool:
    invalid = row.comparison.verdict is Verdict.INVALID
    return measure.honest or (study.sound(row.comparison.arm) and not invalid)


def _difference(study: StudyResults, measure: DisplayedMetric, row: ShownDifference) -> Number:
    number = measured_number(row.estimate, form=measure.of_difference, sound=_sound(study, measure, row))
    digits = None if row.without_leak else difference_number(row.comparison).decimals
    return replace(number, decimals=digits)


def _arm(study: StudyResults, row: ShownDifference) -> Arm:
    return next(arm for arm in study.arms if arm.name == row.comparison.arm)


def _forest(
    study: StudyResults, measure: DisplayedMetric, rows: list[ShownDifference], *, legend: bool
) -> Forest:
    own = bool(study.facts.against)
    meaning = f", in {measure.unit}" if measure.unit else ""
    against = "its own baseline" if own else study.baseline
    drawn = [_forest_row(study, measure, row, own=own) for row in rows]
    seeds, told = {row.estimate.n for row in rows}, f" {LEGEND}" if legend else ""
    if len(seeds) == 1:  # said once
        told = f" {'One seed: no interval.' if seeds == {1} else f'n = {max(seeds)} seeds.'}{told}"
        drawn = [replace(row, difference=_bare(row.difference)) for row in drawn]
    if measure.name == study.metric:
        seen = {row.comparison.arm for row in rows}
        drawn += [_empty_row(study, arm) for arm in study.arms if arm.name not in seen and not arm.baseline]
    return Forest(
        drawn,
        caption=(strong(first_upper(measure.title)), f": each arm minus {against}{meaning}.{told}"),
        left="better" if measure.lower_is_better else "worse",
        right="worse" if measure.lower_is_better else "better",
    )


def _bare(difference: Number) -> Number:
    return replace(difference, n=None, without_interval="")


LEGEND = (
    "The bar is the 95% interval, small dots are seeds; a difference within the shaded band could have been "
    "missed (80% power)."
)


def _forest_row(
    study: StudyResults, measure: DisplayedMetric, row: ShownDifference, *, own: bool
) -> ForestRow:
    arm, said, one = _arm(study, row), _pill(row), row.comparison
    tested = one.claims and not row.without_leak and known(one.p_corrected)
    why: Inline = chance(one.p_corrected) if tested else ""
    if measure.honest:
        why = "scored with later tokens removed"
    elif not arm.sound:
        why = listed(dict.fromkeys(finding.check for finding in arm.findings("fail")))
    return ForestRow(
        arm.untagged,
        _difference(study, measure, row),
        replace(said, plain=True),
        beside=f"minus {one.baseline}" if own else "",
        why=why,
        sets_scale=measure.honest or arm.sound,
        each=_each_seed(study, measure.name, arm.name),
        detectable=one.smallest if arm.sound and not row.without_leak and known(one.smallest) else None,
    )


def _empty_row(study: StudyResults, arm: Arm) -> ForestRow:
    """An arm that could not be compared keeps its row, which says why."""
    said = replace(study.pill(arm), plain=True)
    return ForestRow(arm.untagged, Number(None), said, why=sentence(arm.reason), sets_scale=False)


def _each_seed(study: StudyResults, name: str, arm: str) -> list[float]:
    """The difference from the baseline of every seed that both have."""
    sides = [
        {run.seed: run.metrics[name] for run in study.outcome.runs_of(side) if known(run.metrics.get(name))}
        for side in (arm, study.baseline_of(arm))
    ]
    return [sides[0][seed] - sides[1][seed] for seed in sorted(sides[0].keys() & sides[1].keys())]


def _pill(row: ShownDifference) -> VerdictPill:
    """The verdict of a comparison; a loss without a leak has none of its own."""
    if row.without_leak:
        return VerdictPill("")
    return VerdictPill(row.comparison.verdict.value, verdict_phrase(row.comparison))


def _tests(study: StudyResults, shown: list[tuple[DisplayedMetric, list[ShownDifference]]]) -> Details:
    effect = TableColumn("MDE", "Minimum detectable effect at 80% power.", right=True, alike=False)
    numbers = [TableColumn(name, right=True, alike=False) for name in ("difference", "p", "p corrected")]
    rows = [_test(study, measure, row) for measure, compared in shown for row in compared]
    columns: list[TableColumn | str] = [
        "arm",
        "metric",
        *numbers,
        effect,
        TableColumn("texts", right=True),
        "verdict",
    ]
    table = Table(columns, rows, caption="Each arm against its baseline, paired by seed.", look="wide")
    note = (
        "p is corrected for the number of comparisons. MDE is the minimum detectable "
        "effect at 80% power: a smaller difference would probably have been missed; n counts seeds, texts "
        "are the dev texts of each."
    )
    return Details("Tests behind the verdicts", [table, Sentence(note, "fine")])


def _test(study: StudyResults, measure: DisplayedMetric, row: ShownDifference) -> TableRow:
    sound, one = _sound(study, measure, row), row.comparison
    untrained = one.verdict is Verdict.UNTRAINED
    chances: list[Inline] = [
        "unknown" if row.without_leak or untrained or math.isnan(p) else Number(p, form="chance", sound=sound)
        for p in (one.p, one.p_corrected)
    ]
    numbers = (None, None) if row.without_leak else (one.smallest, one.documents)
    smallest = estimate_of({"value": numbers[0]}, form=measure.form, sound=sound)
    texts = estimate_of({"value": numbers[1]}, form="count")
    difference = _difference(study, measure, row)
    cells = (_arm(study, row).shown, measure.title, difference, *chances, smallest, texts, _pill(row))
    return TableRow(cells, sound=sound)
