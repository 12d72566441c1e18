"""Each arm minus its baseline while they train, paired by seed: the noise that both share is gone."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.documents.nodes import Axis, Control, Figure, Level, Lines, Name, Node
from attnlab.documents.numbers import known
from attnlab.metrics.measures import measures
from attnlab.runs.result import Curve, RunResult
from attnlab.studies.report.courses import (
    Courses,
    course,
    curve_of,
    form_of,
    lines_of,
    metric_of,
    title_of_curve,
    values_of,
)
from attnlab.studies.report.study_results import StudyResults

NOTE = (
    "At each point the difference of the two runs of a seed; the line is its mean, the band goes from the "
    "lowest seed to the highest. A band that leaves zero out is no test: the result above is. Invalid arms "
    "do not set the scale."
)


def paired(study: StudyResults) -> list[Node]:
    """A figure of every dev curve that arms share with their baselines."""
    extra = dict.fromkeys(name for _, run in study.runs() for name in run.extra_curves)
    names = ["dev loss", *(name for name in extra if name.startswith("dev "))]
    by = _axis(study, names)
    drawn = {name: courses for name in names if (courses := _courses(study, name, by))}
    own = [name for name in drawn if metric_of(name) == study.metric]
    drawn = {name: drawn[name] for name in dict.fromkeys([*own, *drawn])}
    if not drawn:
        return []
    arms = [arm for arm in study.arms if any(arm.name in courses for courses in drawn.values())]
    against = "its baseline" if study.facts.against else study.baseline
    return [
        Figure(
            {str(place): [_chart(study, name, drawn[name], by)] for place, name in enumerate(drawn)},
            note=NOTE,
            anchor="paired",
            alt=f"Each arm minus {against} by {by}, a line an arm: {', '.join(arm.label for arm in arms)}",
            controls=[Control("Show", [title_of_curve(name) for name in drawn])],
            legend=[(Name(arm.name, arm.ink, arm.sound), arm.label) for arm in arms],
        )
    ]


def _axis(study: StudyResults, names: Sequence[str]) -> str:
    """Steps, or epochs where more arms have points at the same ones: batches of another size end apart."""
    counts = {by: sum(len(_courses(study, name, by)) for name in names) for by in ("step", "epoch")}
    return max(counts, key=counts.__getitem__)


def _courses(study: StudyResults, name: str, by: str) -> Courses:
    """Of each arm its difference over the seeds that it has in common with its baseline."""
    by_arm = {}
    for arm in study.arms:
        baseline = study.arm(study.baseline_of(arm.name))
        if baseline is None or baseline.name == arm.name:
            continue
        pairs = [(run, other) for run in arm.runs for other in baseline.runs if run.seed == other.seed]
        gaps = [gap for run, other in pairs if (gap := difference(run, other, name, by))[by]]
        if max((len(gap[by]) for gap in gaps), default=0) > 1:
            by_arm[arm.name] = course(gaps, by)
    return by_arm


def difference(run: RunResult, other: RunResult, name: str, by: str = "step") -> Curve:
    """A run's curve minus another's, at the steps or epochs that both have; of shares in points."""
    sides = [curve_of(one, name) for one in (run, other)]
    points = [dict(zip(side.get(by, ()), values_of(side), strict=False)) for side in sides]
    places = [place for place in points[0] if known(points[0][place]) and known(points[1].get(place))]
    unit = 100 if form_of(name) == "percent" else 1
    return {by: places, "value": [unit * (points[0][place] - points[1][place]) for place in places]}


def _chart(study: StudyResults, name: str, courses: Courses, by: str) -> Lines:
    lines = [
        line for arm in study.arms if arm.name in courses for line in lines_of(arm, courses[arm.name], by)
    ]
    measure = measures().get(metric_of(name))
    better = "below" if measure is None or measure.lower_is_better else "above"
    unit = " in points" if form_of(name) == "percent" else ""
    title = f"{title_of_curve(name)}, arm minus baseline{unit} ({better} zero is better)"
    y = Axis(title, span=_span(study, courses))
    return Lines(lines, Axis(by, from_zero=True), y, levels=[Level("no difference", 0.0)])


def _span(study: StudyResults, courses: Courses) -> tuple[float, float] | None:
    """Zero and all of the valid arms; the first steps, where everything differs, are not left out."""
    valid = [one for name, one in courses.items() if study.sound(name)] or list(courses.values())
    parts = [part for one in valid for part in one.parts]
    values = [0.0, *(y for part in parts for key in ("value", "low", "high") for y in part[key] if known(y))]
    margin = 0.06 * (max(values) - min(values)) or 0.05
    return min(values) - margin, max(values) + margin
