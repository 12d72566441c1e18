"""Curves of runs over their seeds: the mean where every seed has a point, single seeds elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.documents.nodes import Form, Line
from attnlab.documents.numbers import known, spread
from attnlab.metrics.measures import is_share, title_of
from attnlab.runs.result import Curve, RunResult
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.run_curves import SAMPLED_LOSS

AXES = ("step", "tokens", "seconds", "epoch")
MOST_POINTS = 250

Points = dict[str, list[Any]]
"""A curve by its columns: places along each axis, value, lowest, highest and number of seeds."""


@dataclass(frozen=True)
class Course:
    """An arm over its seeds: the mean where all of them have a point, and single seeds elsewhere."""

    mean: Points
    singles: list[Points] = field(default_factory=list)

    @property
    def banded(self) -> bool:
        return any(map(known, self.mean.get("low", ())))

    @property
    def parts(self) -> list[Points]:
        return [part for part in (self.mean, *self.singles) if part.get("value")]


Courses = Mapping[str, Course]
"""Of each arm."""


def metric_of(name: str) -> str:
    """The metric that a curve is of."""
    return name.removeprefix("dev ").removeprefix("train ")


def title_of_curve(name: str) -> str:
    side = next((side for side in ("dev ", "train ") if name.startswith(side)), "")
    return f"{side}{title_of(metric_of(name)).removeprefix('dev ')}" if name != SAMPLED_LOSS else name


def by_arm(study: StudyResults, name: str) -> dict[str, list[Curve]]:
    return {arm.name: [c for run in arm.runs if (c := curve_of(run, name)).get("step")] for arm in study.arms}


def curve_of(run: RunResult, name: str) -> Curve:
    own = {"dev loss": run.dev_curve, "train loss": run.curve}
    return own[name] if name in own else run.extra_curves.get(name, {})


def values_of(curve: Curve) -> Sequence[float]:
    return next((values for key, values in curve.items() if key not in AXES), [])


def form_of(name: str) -> Form:
    return "percent" if is_share(metric_of(name)) else "plain"


# ---------------------------------------------------------------- over seeds
def course(runs: Sequence[Curve], by: str = "step") -> Course:
    """A mean only where every seed has a point: where runs end at different steps, a mean over those that are
    left would rise and fall with who they are. There each seed is drawn by itself.

    Seeds that spend a budget in a few steps more or less than others end in one point all the same.
    """
    together = _end_together(runs)
    tables = [_rows(run, by, together=together) for run in runs]
    common = set.intersection(*(set(table) for table in tables)) if tables else set()
    means = []
    for place in sorted(common):
        rows = [table[place] for table in tables]
        mean = {axis: _mean([row.get(axis) for row in rows]) for axis in AXES}
        means.append({**mean, **_spread([row["value"] for row in rows])})
    singles = [part for table in tables for part in _stretches(table, common)] if len(runs) > 1 else []
    return Course(_binned([row for row in means if "value" in row]), singles)


def _rows(run: Curve, by: str, *, together: bool) -> dict[float, dict[str, Any]]:
    """The points of a run by their place; the last of runs that end together have the same."""
    present = [axis for axis in AXES if axis in run]
    rows = zip(*(run[axis] for axis in present), values_of(run), strict=False)
    named = [dict(zip((*present, "value"), row, strict=True)) for row in rows]
    named = [row for row in named if known(row["value"])]
    last = named[-1] if together and named else None
    return {math.inf if row is last else row[by]: row for row in named}


def _stretches(table: Mapping[float, Mapping[str, Any]], common: set[float]) -> list[Points]:
    """What a seed has alone: each stretch, from the common point before it to that after it."""
    places, parts, part = sorted(table), list[list[float]](), list[float]()
    for before, place in zip([None, *places], places, strict=False):
        if place not in common:
            part = part or ([before] if before is not None else [])
            part.append(place)
        elif part:
            parts.append([*part, place])
            part = []
    return [_binned([dict(table[place]) for place in one]) for one in filter(None, [*parts, part])]


def _end_together(runs: Sequence[Curve]) -> bool:
    """Whether the last points of all runs lie closer together than any two points of one run there."""
    steps = [run.get("step") or [] for run in runs]
    if min(map(len, steps), default=0) < 2:
        return False
    ends = [own[-1] for own in steps]
    return max(ends) - min(ends) < min(own[-1] - own[-2] for own in steps)


def _binned(rows: list[dict[str, Any]]) -> Points:
    size = -(-len(rows) // MOST_POINTS) or 1
    bins = [rows[i : i + size] for i in range(0, len(rows), size)]
    keys = (*AXES, "value", "low", "high", "n")
    return {key: [_mean([row.get(key) for row in group]) for group in bins] for key in keys}


def _mean(values: Sequence[Any]) -> float | None:
    numbers = [value for value in values if known(value)]
    return sum(numbers) / len(numbers) if numbers else None


def _spread(values: Sequence[Any]) -> dict[str, Any]:
    mean = spread(values)
    return {} if mean.value is None else {key: getattr(mean, key) for key in ("value", "low", "high", "n")}


# ---------------------------------------------------------------- as lines
def lines_of(arm: Arm, drawn: Course, axis: str) -> list[Line]:
    """The mean with its band, and single seeds where there is none."""
    lines = []
    if drawn.mean.get("value"):
        hover = [
            f"{low:.4g} to {high:.4g}, {n:g} seeds" if known(low) else "one seed"
            for low, high, n in zip(*(drawn.mean[key] for key in ("low", "high", "n")), strict=True)
        ]
        ends = drawn.mean["low"], drawn.mean["high"]
        lines.append(Line(arm.name, drawn.mean[axis], drawn.mean["value"], *ends, hover, arm.label, arm.ink))
    for part in drawn.singles:
        hover = ["one seed"] * len(part["value"])
        x, y = part[axis], part["value"]
        lines.append(Line(arm.name, x, y, hover=hover, label=arm.label, ink=arm.ink, thin=True))
    return lines
