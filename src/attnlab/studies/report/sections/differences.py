"""Each arm against the baseline: a forest of differences with their intervals, and the words they earn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from attnlab.documents.nodes import Form
from attnlab.documents.numbers import fixed, known
from attnlab.documents.scale import round_numbers
from attnlab.studies.report.metric_display import WITHOUT_LEAK, DisplayedMetric, metric
from attnlab.studies.report.number_text import FigureText, column, exact
from attnlab.studies.report.study_results import Arm, StudyResults

Row = Mapping[str, Any]
Place = Callable[[float], float]


def differences(study: StudyResults) -> dict[str, Any] | None:
    rows = [row for row in study.results.get("comparisons") or [] if study.arm(row.get("arm"))]
    names = sorted(dict.fromkeys(row["metric"] for row in rows), key=lambda name: name != study.metric)
    forests = [_forest(study, metric(study, n), [r for r in rows if r["metric"] == n]) for n in names]
    without_leak: list[Row] = [
        {"arm": row["arm"], "baseline": row.get("baseline"), **row["without_leak"]}
        for row in rows
        if row.get("without_leak")
    ]
    if without_leak:
        forests.append(_forest(study, metric(study, WITHOUT_LEAK.name), without_leak))
    return {"forests": forests} if forests else None


def _forest(study: StudyResults, measure: DisplayedMetric, rows: list[Row]) -> dict[str, Any]:
    form: Form = "signed" if measure.form in ("plain", "signed") else measure.form
    smallest = column([{"value": row.get("smallest")} for row in rows], measure.form)
    shown = column([{**row, "value": row.get("difference"), "n": row.get("seeds")} for row in rows], form)
    low, high = _range([row for row in rows if measure.honest or study.sound(row["arm"])] or rows)

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 3)

    ticks = round_numbers(low, high)
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
    row: Row,
    figure: FigureText,
    smallest: FigureText,
    place: Place,
) -> dict[str, Any]:
    arm = next(arm for arm in study.arms if arm.name == row["arm"])
    sound = measure.honest or (study.sound(row["arm"]) and row.get("verdict") != "invalid")
    low, high = row.get("low"), row.get("high")
    ends = (place(low), place(high)) if known(low) and known(high) else (None, None)
    return {
        "arm": arm,
        "baseline": row.get("baseline") or study.baseline,
        "sound": sound,
        "figure": figure,
        "verdict": row.get("verdict") or "",
        "words": row.get("words") or row.get("verdict") or "",
        "said": "scored with later tokens removed" if measure.honest else _verdict(row, arm),
        "p": _chance(row.get("p")),
        "p_corrected": _chance(row.get("p_corrected")),
        "smallest": smallest,
        "documents": exact(row.get("documents"), "count"),
        "at": place(row["difference"]) if known(row.get("difference")) else None,
        "from": ends[0],
        "to": ends[1],
        "alt": f"{row['arm']}: {figure.text} {', '.join(figure.beside)}"
        if figure.value is not None
        else row["arm"],
    }


def _verdict(row: Row, arm: Arm) -> str:
    failed = [] if arm.sound else [finding.check for finding in arm.findings("fail")]
    return ", ".join([row.get("verdict") or "", *failed])


def _range(rows: list[Row]) -> tuple[float, float]:
    """From these rows' intervals and zero, with a margin: what is not sound does not set the scale."""
    values = [row.get(key) for row in rows for key in ("difference", "low", "high")]
    finite = [0.0, *(value for value in values if known(value) and math.isfinite(value))]
    low, high = min(finite), max(finite)
    margin = 0.12 * (high - low) or 1.0
    return low - margin, high + margin


def _chance(p: Any) -> FigureText:
    if not known(p):
        return FigureText(None, "unknown")
    return FigureText(p, "< 0.001" if p < 0.001 else fixed(p, 3))
