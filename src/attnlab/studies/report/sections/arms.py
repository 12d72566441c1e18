"""What each arm came to, how well and at what cost, and what there is without training on the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnlab.config.wording import count_of, sentence
from attnlab.documents.nodes import (
    Definitions,
    Details,
    Form,
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
from attnlab.metrics.measures import is_share, limits_of, signed, title_of
from attnlab.studies.report.metric_display import DisplayedMetric, cost, estimate, explained, quality
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.shown import measured_number

SHOWN = 7
"""Metrics of a table; more are told on request."""
SEEDS = TableColumn("n", "Seeds that the numbers are means of.", right=True)


def arms(study: StudyResults) -> list[Node]:
    """A table of how well they did, and one of what they took."""
    tables = {"How well": quality(study), "At what cost": cost(study)}
    groups = comparable(study.arms)
    shown: list[Node] = []
    if len(groups) > 1:
        told = (
            " Their data, tokenizer or evaluation set differ: rows are in groups, and only rows of the same "
            "group may be compared. Bits per byte, and scores of written text, remain comparable across "
            "tokenizers, not across texts."
        )
        shown.append(Notice((strong("Not all arms can be compared."), told), "invalid"))
    for title, metrics in tables.items():
        if first := metrics[:SHOWN]:
            shown += [_table(study, groups, first, title), _terms(study, first)]
        if rest := metrics[SHOWN:]:
            more: list[Node] = [_table(study, groups, rest, f"{title}: further metrics"), _terms(study, rest)]
            shown.append(Details(f"{len(rest)} more metrics", more))
    return [*shown, Sentence(_note(study), "fine")] if any(tables.values()) else []


def _table(
    study: StudyResults, groups: Sequence[Sequence[Arm]], metrics: Sequence[DisplayedMetric], title: str
) -> Table:
    columns = [TableColumn(m.title, m.definition, right=True) for m in metrics]
    counts = [] if len(_seeds(study, metrics)) == 1 else [SEEDS]
    rows = []
    for number, group in enumerate(groups, 1):
        apart = f"Group {number}: not comparable with the others" if len(groups) > 1 else ""
        for arm in group:
            seeds = [seeds_of(arm, metrics) for _ in counts]
            cells = arm.shown, *seeds, *_numbers(arm, metrics)
            rows.append(TableRow(cells, sound=arm.sound, group=apart if arm is group[0] else ""))
    return Table(["arm", *counts, *columns], rows, title=title, look="wide sortable")


def _terms(study: StudyResults, metrics: Sequence[DisplayedMetric]) -> Definitions:
    shown = explained(study, list(metrics))
    return Definitions([(m.title, signed(sentence(m.definition), m.signature)) for m in shown])


def _note(study: StudyResults) -> str:
    """What stands below the numbers, and over how many seeds; said once."""
    seeds = _seeds(study, [*quality(study), *cost(study)])
    over = count_of(next(iter(seeds)), "seed") if len(seeds) == 1 else "n seeds"
    note = f"Below each number: its 95% interval over {over}. "
    if seeds == {1}:
        note = "One seed: intervals over seeds are unknown. "
    if _cut(study):
        note += "An interval ends where its measure does, as a loss at 0. "
    note += "Parameters and FLOPs are counted, not estimated."
    if study.unsound:
        note += (
            " Token-by-token numbers of an invalid arm are not struck: they were measured with the later "
            "tokens removed."
        )
    return note


def _cut(study: StudyResults) -> bool:
    """Whether an interval was cut off at a value that its measure cannot pass."""
    scores = [(name, score) for arm in study.arms for name, score in arm.scores.items() if score.interval]
    return any(end in limits_of(name) for name, score in scores for end in score.interval or ())


def seeds_of(arm: Arm, metrics: Sequence[DisplayedMetric]) -> int | None:
    """The seeds that an arm's numbers are over: the most where they differ."""
    return max((n for metric in metrics if (n := _number(arm, metric).n)), default=None)


def _seeds(study: StudyResults, metrics: Sequence[DisplayedMetric]) -> set[int]:
    numbers = [_number(arm, metric).n for arm in study.arms for metric in metrics]
    return {n for n in numbers if n}


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


def _numbers(arm: Arm, metrics: Sequence[DisplayedMetric]) -> list[Inline]:
    """n beside a number only where it is not that of the row."""
    common = seeds_of(arm, metrics)
    numbers = [replace(_number(arm, metric), without_interval="") for metric in metrics]
    return [replace(number, n=None) if number.n == common else number for number in numbers]


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
            facts = one["name"], one["value"], tuple(one["interval"] or ()), one["n"], one["definition"]
            key = (*facts, one.get("metric", "accuracy"))
            rows.setdefault(key, {})[arm.name] = arm
    shown = [
        (name, arms_named(study, held), title_of(metric), _score(metric, value, interval, n), definition)
        for (name, value, interval, n, definition, metric), held in rows.items()
        if known(value)
    ]
    caption = "On dev, without any training on the task: what a score of an arm is compared with."
    score = TableColumn("value, 95% interval", right=True, alike=False)
    columns = ("baseline", "arms", "metric", score, "definition")
    return [Table(columns, shown, caption=caption)] if rows else []


def _score(metric: str, value: float, interval: Sequence[float], n: int) -> Number:
    form: Form = "percent" if is_share(metric) else "plain"
    return replace(Number.within(value, interval), n=n, form=form)


def arms_named(study: StudyResults, held: dict[str, Arm]) -> Inline:
    return "all" if len(held) == len(study.arms) else listed(arm.shown for arm in held.values())
