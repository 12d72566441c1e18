"""Training curves: the mean of the seeds and the band from their lowest to their highest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.documents.numbers import known
from attnlab.runs.result import Curve, RunResult
from attnlab.studies.report import plots
from attnlab.studies.report.number_text import spread
from attnlab.studies.report.study_results import Arm, StudyResults

AXES = ("step", "tokens", "seconds", "epoch")
MOST_POINTS = 250


def curves(study: StudyResults) -> dict[str, Any] | None:
    found = {name: by_arm(study, name) for name in _names(study)}
    found = {name: arms for name, arms in found.items() if any(arms.values())}
    present = {axis for arms in found.values() for runs in arms.values() for curve in runs for axis in curve}
    axes = [axis for axis in AXES if axis in present]
    if not found or not axes:
        return None
    drawn = {name: {arm: over_seeds(cs) for arm, cs in arms.items() if cs} for name, arms in found.items()}
    views = {
        f"{i},{j}": [_figure(study, drawn[name], name, axis)]
        for i, name in enumerate(found)
        for j, axis in enumerate(axes)
    }
    arms = [arm for arm in study.arms if any(arm.name in lines for lines in drawn.values())]
    plot = plots.Plot(
        "curves",
        f"{' and '.join(found)} by {', '.join(axes)}, a line an arm: {', '.join(arm.label for arm in arms)}",
        views,
        controls=[plots.PlotControl("Show", list(found)), plots.PlotControl("by", axes)],
        legend=[plots.Legend(arm.name, arm.label, arm.ink, arm.sound) for arm in arms],
    )
    averaged = (
        max(len(c["step"]) for arms in found.values() for cs in arms.values() for c in cs) > MOST_POINTS
    )
    return {"plots": [plot], "seeds": len(study.seeds), "averaged": averaged}


def _names(study: StudyResults) -> list[str]:
    extra = dict.fromkeys(name for _, run in study.runs() for name in run.extra_curves)
    return ["dev loss", "train loss", *(name for name in extra if not name.startswith("train "))]


def by_arm(study: StudyResults, name: str) -> dict[str, list[Curve]]:
    return {arm.name: [c for run in arm.runs if (c := _curve(run, name)).get("step")] for arm in study.arms}


def _curve(run: RunResult, name: str) -> Curve:
    own = {"dev loss": run.dev_curve, "train loss": run.curve}
    return own[name] if name in own else run.extra_curves.get(name, {})


def _values(curve: Curve) -> Sequence[float]:
    return next((values for key, values in curve.items() if key not in AXES), [])


def over_seeds(runs: Sequence[Curve], by: str = "step") -> dict[str, list[Any]]:
    """One curve of several: at each step the mean of the seeds that reached it, their lowest and highest.

    Seeds that spend a budget in a few steps more or less than others end in one point all the same.
    """
    at: dict[float, list[tuple[Any, ...]]] = defaultdict(list)
    together = _end_together(runs)
    for run in runs:
        present = [axis for axis in AXES if axis in run]
        rows = list(zip(*(run[axis] for axis in present), _values(run), strict=False))
        for number, row in enumerate(rows, start=1):
            end = together and number == len(rows)
            where = dict(zip(present, row, strict=False))
            at[math.inf if end else where[by]].append((where, row[-1]))
    means = []
    for step in sorted(at):
        mean = {axis: _mean([x[axis] for x, _ in at[step] if axis in x]) for axis in AXES}
        means.append({**mean, **spread([y for _, y in at[step]])})
    return _binned([row for row in means if "value" in row])


def _end_together(runs: Sequence[Curve]) -> bool:
    """Whether the last points of all runs lie closer together than any two points of one run there."""
    steps = [run.get("step") or [] for run in runs]
    if min(map(len, steps), default=0) < 2:
        return False
    ends = [own[-1] for own in steps]
    return max(ends) - min(ends) < min(own[-1] - own[-2] for own in steps)


def _binned(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    size = -(-len(rows) // MOST_POINTS) or 1
    bins = [rows[i : i + size] for i in range(0, len(rows), size)]
    keys = (*AXES, "value", "low", "high", "n")
    return {key: [_mean([row.get(key) for row in group]) for group in bins] for key in keys}


def _mean(values: Sequence[Any]) -> float | None:
    numbers = [value for value in values if known(value)]
    return sum(numbers) / len(numbers) if numbers else None


def _figure(
    study: StudyResults, drawn: Mapping[str, dict[str, list[Any]]], name: str, axis: str
) -> plots.Figure:
    placed = all(known(x) for curve in drawn.values() for x in curve[axis])
    axis = axis if placed else "step"  # a curve that only knows its steps stays by step
    lines = [line_of(arm, drawn[arm.name], axis) for arm in study.arms if arm.name in drawn]
    y = plots.axis(f"{name} (nats)" if name.endswith("loss") else name)
    return plots.lines(lines, plots.axis(axis, integer=True), y)


def line_of(arm: Arm, curve: dict[str, list[Any]], axis: str) -> plots.PlotLine:
    hover = [
        f"{low:.4g} to {high:.4g}, {n:g} seeds" if known(low) else "one seed"
        for low, high, n in zip(curve["low"], curve["high"], curve["n"], strict=True)
    ]
    return plots.PlotLine(
        arm.name, arm.label, arm.ink, curve[axis], curve["value"], curve["low"], curve["high"], hover
    )
