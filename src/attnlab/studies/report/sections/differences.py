"""Each arm against the baseline: a forest of differences with their intervals, and the words they earn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnlab.evaluation.comparison import Comparison, Verdict
from attnlab.metrics.metric import Estimate
from attnlab.studies.outcome import score_json
from attnlab.studies.report.metric_display import WITHOUT_LEAK, DisplayedMetric, metric
from attnlab.studies.report.number_text import Figure, column, exact, fixed, known
from attnlab.studies.report.study_results import Arm, Mark, StudyResults
from attnlab.studies.wording import verdict_phrase, words_of

Place = Callable[[float], float]


@dataclass(frozen=True)
class ForestRow:
    """A difference of the forest: a comparison, or that of an arm that leaks by the loss without the leak."""

    comparison: Comparison
    estimate: Estimate
    without_leak: bool = False


def differences(study: StudyResults) -> dict[str, Any] | None:
    compared = [one for one in study.outcome.comparisons if study.arm(one.arm)]
    names = sorted(dict.fromkeys(one.metric for one in compared), key=lambda name: name != study.metric)
    forests = [
        _forest(study, metric(study, name), [_of(one) for one in compared if one.metric == name])
        for name in names
    ]
    without_leak = [
        ForestRow(one, one.without_leak, True) for one in compared if one.without_leak is not None
    ]
    if without_leak:
        forests.append(_forest(study, metric(study, WITHOUT_LEAK.name), without_leak))
    return {"forests": forests} if forests else None


def _of(comparison: Comparison) -> ForestRow:
    numbers = comparison.difference, comparison.low, comparison.high
    return ForestRow(comparison, Estimate(*numbers, comparison.seeds))


def _forest(study: StudyResults, measure: DisplayedMetric, rows: list[ForestRow]) -> dict[str, Any]:
    form = "signed" if measure.form in ("plain", "signed") else measure.form
    least = [None if row.without_leak else row.comparison.smallest for row in rows]
    smallest = column([{"value": value} for value in least], measure.form)
    shown = column([score_json(row.estimate) for row in rows], form)
    low, high = _range([row for row in rows if measure.honest or study.sound(row.comparison.arm)] or rows)

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 3)

    ticks = _ticks(low, high)
    places = max(0, -math.floor(math.log10(ticks[1] - ticks[0]))) if len(ticks) > 1 else 0
    return {
        "metric": measure,
        "zero": place(0),
        "ticks": [(place(tick), fixed(tick, places, sign=True)) for tick in ticks],
        "rows": [_row(study, measure, *cells, place) for cells in zip(rows, shown, smallest, strict=True)],
        "worse_right": measure.lower_is_better,
    }


def _row(
    study: StudyResults,
    measure: DisplayedMetric,
    row: ForestRow,
    figure: Figure,
    smallest: Figure,
    place: Place,
) -> dict[str, Any]:
    comparison, estimate = row.comparison, row.estimate
    arm = next(arm for arm in study.arms if arm.name == comparison.arm)
    sound = measure.honest or (arm.sound and comparison.verdict is not Verdict.INVALID)
    ends = [place(end) if math.isfinite(end) else None for end in (estimate.low, estimate.high)]
    mark = (
        Mark("other", "") if row.without_leak else Mark(comparison.verdict.value, verdict_phrase(comparison))
    )
    return {
        "arm": arm,
        "baseline": comparison.baseline,
        "sound": sound,
        "figure": figure,
        "mark": mark,
        "words": "" if row.without_leak else words_of(comparison),
        "said": "scored with later tokens removed" if measure.honest else _verdict(mark, arm),
        "p": _chance(math.nan if row.without_leak else comparison.p),
        "p_corrected": _chance(math.nan if row.without_leak else comparison.p_corrected),
        "smallest": smallest,
        "documents": exact(None if row.without_leak else comparison.documents, "count"),
        "at": place(estimate.value) if math.isfinite(estimate.value) else None,
        "from": ends[0] if None not in ends else None,
        "to": ends[1] if None not in ends else None,
        "alt": f"{arm.name}: {figure.text} {', '.join(figure.beside)}"
        if figure.value is not None
        else arm.name,
    }


def _verdict(mark: Mark, arm: Arm) -> str:
    failed = [] if arm.sound else [finding.check for finding in arm.findings("fail")]
    return ", ".join([mark.words, *failed])


def _range(rows: list[ForestRow]) -> tuple[float, float]:
    """From these rows' intervals and zero, with a margin: what is not sound does not set the scale."""
    values = [end for row in rows for end in (row.estimate.value, row.estimate.low, row.estimate.high)]
    finite = [0.0, *filter(math.isfinite, values)]
    low, high = min(finite), max(finite)
    margin = 0.12 * (high - low) or 1.0
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers within the range, zero among them."""
    rough = (high - low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _chance(p: Any) -> Figure:
    if not known(p):
        return Figure(None, "unknown")
    return Figure(p, "< 0.001" if p < 0.001 else fixed(p, 3))
