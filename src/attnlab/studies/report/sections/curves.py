"""Training curves, by step and by epoch: the mean of the seeds, and from their lowest to their highest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.documents.nodes import Axis, Control, Figure, Line, Lines, Name, Node
from attnlab.documents.numbers import known, spread
from attnlab.runs.result import Curve, RunResult
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.run_curves import SAMPLED_LOSS

AXES = ("step", "tokens", "seconds", "epoch")
MOST_POINTS = 250

Drawn = Mapping[str, dict[str, list[Any]]]
"""Of each arm: its curve over the seeds."""


def curves(study: StudyResults) -> list[Node]:
    by_name = {name: by_arm(study, name) for name in _names(study)}
    by_name = {name: arms for name, arms in by_name.items() if any(arms.values())}
    present = {
        axis for arms in by_name.values() for runs in arms.values() for curve in runs for axis in curve
    }
    axes = [axis for axis in AXES if axis in present]
    if not by_name or not axes:
        return []
    drawn = {name: {arm: over_seeds(cs) for arm, cs in arms.items() if cs} for name, arms in by_name.items()}
    views = {
        f"{i},{j}": [_chart(study, drawn[name], name, axis)]
        for i, name in enumerate(by_name)
        for j, axis in enumerate(axes)
    }
    arms = [arm for arm in study.arms if any(arm.name in lines for lines in drawn.values())]
    averaged = (
        max(len(c["step"]) for arms in by_name.values() for cs in arms.values() for c in cs) > MOST_POINTS
    )
    several = len(study.seeds) > 1
    note = "Lines are means of the seeds, bands run from the lowest seed to the highest." if several else ONE
    note += " Long curves are averaged over neighbouring steps." if averaged else ""
    note += " By seconds, a point stands at the mean time of the seeds." if several else ""
    alt = (
        f"{' and '.join(by_name)} by {', '.join(axes)}, a line an arm: {', '.join(arm.label for arm in arms)}"
    )
    controls = [Control("Show", list(by_name)), Control("by", axes)]
    return [
        Figure(views, note=note + HIDE, anchor="curves", alt=alt, controls=controls, legend=_legend(arms))
    ]


ONE, HIDE = "One seed: the spread is unknown.", " Press a name to hide its line."


def _legend(arms: Sequence[Arm]) -> list[tuple[Name, str]]:
    return [(Name(arm.name, arm.ink, arm.sound), arm.label) for arm in arms]


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
        means.append({**mean, **_spread([y for _, y in at[step]])})
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


def _spread(values: Sequence[Any]) -> dict[str, Any]:
    mean = spread(values)
    return {} if mean.value is None else {key: getattr(mean, key) for key in ("value", "low", "high", "n")}


def _chart(study: StudyResults, drawn: Drawn, name: str, axis: str) -> Lines:
    placed = all(known(x) for curve in drawn.values() for x in curve[axis])
    axis = axis if placed else "step"  # a curve that only knows its steps stays by step
    lines = [_line(arm, drawn[arm.name], axis) for arm in study.arms if arm.name in drawn]
    y = Axis(f"{name} (nats)" if name.endswith("loss") else name)
    return Lines(lines, Axis(axis, from_zero=True), y)


def _line(arm: Arm, curve: dict[str, list[Any]], axis: str) -> Line:
    hover = [
        f"{low:.4g} to {high:.4g}, {n:g} seeds" if known(low) else "one seed"
        for low, high, n in zip(curve["low"], curve["high"], curve["n"], strict=True)
    ]
    ends = curve["low"], curve["high"]
    return Line(arm.name, curve[axis], curve["value"], *ends, hover, arm.label, arm.ink)


# ---------------------------------------------------------------- by epoch
def by_epoch(study: StudyResults) -> list[Node]:
    """Train and dev side by side on one scale: every arm in one figure."""
    by_name = {name: [_by_epoch(study, side) for side in sides] for name, sides in _sides(study).items()}
    if not by_name:
        return []
    views = {str(i): _panels(study, name, sides) for i, (name, sides) in enumerate(by_name.items())}
    arms = [
        arm for arm in study.arms if any(arm.name in side for sides in by_name.values() for side in sides)
    ]
    bands = (
        "Lines are means of the seeds; bands, or bars where there are few points, go from the lowest seed to "
        "the highest."
    )
    note = (
        " Dev is the split, or the batches of it that training.evaluate_batches allows. Train is a fixed "
        "sample of the rows that were trained on, at most 16 batches, scored after the epoch as dev is: in "
        "eval mode, with the weights of that moment."
    )
    return [
        Figure(
            views,
            note=(bands if len(study.seeds) > 1 else ONE) + note + HIDE,
            anchor="epochs",
            alt=f"{' and '.join(by_name)} of train and of dev by epoch, a line an arm",
            controls=[Control("Show", list(by_name))],
            panels=(None, None),
            legend=_legend(arms),
        )
    ]


def _sides(study: StudyResults) -> dict[str, tuple[str, str]]:
    """The curves of train and of dev: of the study's own metric, and of the loss."""
    names = {name for _, run in study.runs() for name in run.extra_curves}
    metric = {study.metric: (f"train {study.metric}", f"dev {study.metric}")}
    own = {name: sides for name, sides in metric.items() if names.issuperset(sides)}
    return own | ({"loss": (SAMPLED_LOSS, "dev loss")} if SAMPLED_LOSS in names else {})


def _by_epoch(study: StudyResults, name: str) -> Drawn:
    placed = {arm: [c for c in runs if c.get("epoch")] for arm, runs in by_arm(study, name).items()}
    return {arm: over_seeds(runs, by="epoch") for arm, runs in placed.items() if runs}


def _panels(study: StudyResults, name: str, sides: Sequence[Drawn]) -> list[Lines]:
    span = _span(sides)
    return [
        Lines(
            [_line(arm, drawn[arm.name], "epoch") for arm in study.arms if arm.name in drawn],
            Axis("epoch", from_zero=True),
            Axis(f"{side} {name}", span=span),
        )
        for side, drawn in zip(("train", "dev"), sides, strict=True)
    ]


def _span(sides: Sequence[Drawn]) -> tuple[float, float] | None:
    """One scale for both: a gap between train and dev is then a distance that the eye can measure."""
    keys = ("value", "low", "high")
    values = [
        y for drawn in sides for curve in drawn.values() for key in keys for y in curve[key] if known(y)
    ]
    if not values:
        return None
    margin = 0.05 * (max(values) - min(values)) or 0.05
    return min(values) - margin, max(values) + margin
