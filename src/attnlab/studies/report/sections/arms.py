"""What each arm came to, how well and at what cost, and what there is without training on the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnlab.config.wording import sentence
from attnlab.documents.nodes import (
    Definitions,
    Inline,
    Node,
    Notice,
    Number,
    Sentence,
    Table,
    TableColumn,
    TableRow,
    listed,
    strong,
)
from attnlab.documents.numbers import estimate_of, known
from attnlab.evaluation.comparability import Basis, comparability
from attnlab.studies.report.metric_display import DisplayedMetric, cost, estimate, explained, quality
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.shown import measured_number

SEEDS = TableColumn("n", "Seeds that the numbers are means of.", right=True)


def arms(study: StudyResults) -> list[Node]:
    """A table of how well they did, and one of what they took."""
    tables = {"How well": quality(study), "At what cost": cost(study)}
    groups = comparable(study.arms)
    shown: list[Node] = []
    if len(groups) > 1:
        told = (
            " Their data, tokenizer or evaluation set differ: rows are in groups, and only rows of the same "
            "group may be compared. Bits per byte remain comparable across tokenizers, not across texts."
        )
        shown.append(Notice((strong("Not all arms can be compared."), told), "invalid"))
    for title, metrics in tables.items():
        if metrics:
            columns = [TableColumn(m.title, m.definition, right=True) for m in metrics]
            rows = [
                row for number, group in enumerate(groups, 1) for row in _rows(group, metrics, number, groups)
            ]
            shown.append(Table(["arm", SEEDS, *columns], rows, title=title, look="wide"))
            terms = [(m.title, sentence(m.definition)) for m in explained(study, metrics)]
            shown.append(Definitions(terms))
    if not any(tables.values()):
        return []
    note = (
        "Below each number: its 95% interval over n seeds. Parameters and FLOPs are counted, not estimated."
    )
    if study.unsound:
        note += (
            " Incremental numbers of an arm that is not sound are not struck: they were measured with the "
            "later tokens removed."
        )
    return [*shown, Sentence(note, "fine")]


def comparable(arms: Sequence[Arm]) -> list[list[Arm]]:
    """Arms judged on the same texts in the same tokens by the same task: these stand side by side."""
    groups: list[tuple[Basis, list[Arm]]] = []
    unknown = []
    for arm in arms:
        basis = next((Basis.of(run) for run in arm.runs if run.fingerprints), None)
        if basis is None:  # an arm that never ran has no numbers to set beside others
            unknown.append(arm)
            continue
        group = next((group for one, group in groups if not comparability(basis, one).reasons), None)
        if group is None:
            groups.append((basis, [arm]))
        else:
            group.append(arm)
    grouped = [group for _, group in groups] or [[]]
    grouped[0] += unknown
    return grouped


def _rows(
    group: Sequence[Arm], metrics: Sequence[DisplayedMetric], number: int, groups: Sequence[Sequence[Arm]]
) -> list[TableRow]:
    apart = f"Group {number}: not comparable with the others" if len(groups) > 1 else ""
    return [
        TableRow((arm.shown, *_cells(arm, metrics)), sound=arm.sound, group=apart if place == 0 else "")
        for place, arm in enumerate(group)
    ]


def _cells(arm: Arm, metrics: Sequence[DisplayedMetric]) -> list[Inline]:
    """n by itself where the whole row has the same, otherwise with each number."""
    numbers = [_number(arm, metric) for metric in metrics]
    seeds = {number.n for number in numbers if number.n}
    if len(seeds) != 1:
        return [None, *numbers]
    return [seeds.pop(), *(replace(number, n=None) for number in numbers)]


def _number(arm: Arm, metric: DisplayedMetric) -> Number:
    sound = arm.sound or metric.counted or metric.honest
    if metric.counted:
        return estimate_of({"value": getattr(arm.outcome, metric.name)}, form=metric.form)
    return measured_number(estimate(arm, metric.name), form=metric.form, sound=sound)


def baselines(study: StudyResults) -> list[Node]:
    """A row for each baseline; arms with the same value share it."""
    rows: dict[tuple[Any, ...], dict[str, Arm]] = {}
    for arm, run in study.runs():
        for one in run.extra.get("baselines", ()):
            key = one["name"], one["value"], tuple(one["interval"] or ()), one["n"], one["definition"]
            rows.setdefault(key, {})[arm.name] = arm
    shown = [
        (name, arms_named(study, held), replace(Number.within(value, interval), n=n), definition)
        for (name, value, interval, n, definition), held in rows.items()
        if known(value)
    ]
    caption = "Accuracy on dev without any training on the task: what a score of an arm is compared with."
    columns = ("baseline", "arms", TableColumn("accuracy, 95% interval", right=True), "definition")
    return [Table(columns, shown, caption=caption)] if rows else []


def arms_named(study: StudyResults, held: dict[str, Arm]) -> Inline:
    return "all" if len(held) == len(study.arms) else listed(arm.shown for arm in held.values())
