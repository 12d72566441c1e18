"""The result: each arm against the baseline, with the tests behind it, and arms that learned nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    strong,
)
from attnlab.documents.numbers import estimate_of
from attnlab.runs.findings import Finding, collapse_sentence
from attnlab.runs.result import RunResult
from attnlab.studies.collapsed import seeds_named
from attnlab.studies.report.metric_display import WITHOUT_LEAK, DisplayedMetric, metric
from attnlab.studies.report.study_results import Arm, StudyResults

Row = Mapping[str, Any]


def collapses(study: StudyResults) -> list[Node]:
    """One sentence for each arm whose predictions came to the majority's share, with what to try."""
    sentences = [strong(one) for arm in study.arms if (one := _collapse(arm))]
    return [Items(sentences, "prose collapsed")] if sentences else []


def _collapse(arm: Arm) -> str:
    found = {run.seed: collapse_sentence(_at_the_end(run)) for run in arm.runs}
    seeds = [seed for seed, told in found.items() if told]
    if not seeds:
        return ""
    return f"{arm.name} ({seeds_named(seeds, len(arm.runs))}). {found[seeds[0]]}"


def _at_the_end(run: RunResult) -> list[Finding]:
    return [one for one in run.checks if one.when == "after"]


def differences(study: StudyResults) -> list[Node]:
    """A forest a metric, the study's own first, and the tests behind the verdicts."""
    rows = [row for row in study.results.get("comparisons") or [] if study.arm(row.get("arm"))]
    names = sorted(dict.fromkeys(row["metric"] for row in rows), key=lambda name: name != study.metric)
    shown = [(metric(study, name), [row for row in rows if row["metric"] == name]) for name in names]
    without_leak: list[Row] = [
        {"arm": row["arm"], "baseline": row.get("baseline"), **row["without_leak"]}
        for row in rows
        if row.get("without_leak")
    ]
    if without_leak:
        shown.append((metric(study, WITHOUT_LEAK.name), without_leak))
    forests: list[Node] = [_forest(study, measure, compared) for measure, compared in shown]
    return [*forests, _tests(study, shown)] if forests else []


def _sound(study: StudyResults, measure: DisplayedMetric, row: Row) -> bool:
    return measure.honest or (study.sound(row["arm"]) and row.get("verdict") != "invalid")


def _difference(study: StudyResults, measure: DisplayedMetric, row: Row) -> Number:
    form: Form = "signed" if measure.form in ("plain", "signed") else measure.form
    estimate = {**row, "value": row.get("difference"), "n": row.get("seeds")}
    return estimate_of(estimate, form=form, sound=_sound(study, measure, row))


def _arm(study: StudyResults, row: Row) -> Arm:
    return next(arm for arm in study.arms if arm.name == row["arm"])


def _forest(study: StudyResults, measure: DisplayedMetric, rows: list[Row]) -> Forest:
    own = bool(study.facts.get("against"))
    meaning = f", in {phrase(measure.definition)}" if measure.definition else ""
    against = "its own baseline" if own else study.baseline
    return Forest(
        [_forest_row(study, measure, row, own=own) for row in rows],
        caption=(strong(measure.title.capitalize()), f": each arm minus {against}{meaning}"),
        left="better" if measure.lower_is_better else "worse",
        right="worse" if measure.lower_is_better else "better",
    )


def _forest_row(study: StudyResults, measure: DisplayedMetric, row: Row, *, own: bool) -> ForestRow:
    arm, verdict = _arm(study, row), row.get("verdict") or ""
    failed = [] if arm.sound else [finding.check for finding in arm.findings("fail")]
    said = "scored with later tokens removed" if measure.honest else ", ".join([verdict, *failed])
    return ForestRow(
        arm.shown,
        _difference(study, measure, row),
        study.pill(verdict, said, plain=True),
        beside=f"minus {row.get('baseline') or study.baseline}" if own else "",
        sets_scale=measure.honest or study.sound(row["arm"]),
    )


def _tests(study: StudyResults, shown: list[tuple[DisplayedMetric, list[Row]]]) -> Details:
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


def _test(study: StudyResults, measure: DisplayedMetric, row: Row) -> TableRow:
    sound = _sound(study, measure, row)
    chances: list[Inline] = [
        Number(row[name], form="chance", sound=sound) if row.get(name) is not None else "unknown"
        for name in ("p", "p_corrected")
    ]
    smallest = estimate_of({"value": row.get("smallest")}, form=measure.form, sound=sound)
    texts = estimate_of({"value": row.get("documents")}, form="count")
    verdict = study.pill(row.get("verdict") or "")
    difference = _difference(study, measure, row)
    cells = (_arm(study, row).shown, measure.title, difference, *chances, smallest, texts, verdict)
    return TableRow(cells, sound=sound)
