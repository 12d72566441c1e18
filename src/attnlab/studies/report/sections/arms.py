"""What each arm came to: how well, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnlab.evaluation.comparability import Basis, comparability
from attnlab.studies.report.metric_display import DisplayedMetric, cost, estimate, explained, quality
from attnlab.studies.report.number_text import FigureText, column, exact
from attnlab.studies.report.study_results import Arm, StudyResults


def arms(study: StudyResults) -> dict[str, Any] | None:
    tables = [("How well", quality(study)), ("At what cost", cost(study))]
    groups = comparable(study.arms)
    shown = [
        {
            "title": title,
            "metrics": metrics,
            "groups": _rows(groups, study.arms, metrics),
            "definitions": explained(study, metrics),
        }
        for title, metrics in tables
        if metrics
    ]
    return {"tables": shown, "groups": len(groups)} if shown else None


def comparable(arms: Sequence[Arm]) -> list[list[Arm]]:
    """Arms judged on the same texts in the same tokens by the same task: these stand side by side."""
    groups: list[tuple[Basis, list[Arm]]] = []
    unknown = []
    for arm in arms:
        basis = next((Basis.of(run) for run in arm.runs if run.fingerprints), None)
        if basis is None:  # an arm that never ran has no numbers to set beside others
            unknown.append(arm)
            continue
        held = next((held for one, held in groups if not comparability(basis, one).reasons), None)
        if held is None:
            groups.append((basis, [arm]))
        else:
            held.append(arm)
    found = [held for _, held in groups] or [[]]
    found[0] += unknown
    return found


Row = tuple[Arm, int | None, list[FigureText]]


def _rows(groups: list[list[Arm]], arms: list[Arm], metrics: list[DisplayedMetric]) -> list[list[Row]]:
    columns = [_column(arms, metric) for metric in metrics]
    cells = {arm.name: list(row) for arm, row in zip(arms, zip(*columns, strict=True), strict=True)}
    return [[(arm, *_seeds_once(cells[arm.name])) for arm in group] for group in groups]


def _seeds_once(figures: list[FigureText]) -> tuple[int | None, list[FigureText]]:
    """n by itself where the whole row has the same, otherwise beside each number."""
    seeds = {figure.n for figure in figures if figure.n}
    if len(seeds) != 1:
        return None, figures
    return seeds.pop(), [
        replace(figure, beside=figure.beside[:-1]) if figure.n else figure for figure in figures
    ]


def _column(arms: list[Arm], metric: DisplayedMetric) -> list[FigureText]:
    if metric.counted:
        return [exact(arm.data.get(metric.name), metric.form) for arm in arms]
    return column([estimate(arm, metric.name) for arm in arms], metric.form)
