"""Training curves, by step and by epoch: the mean where every seed has a point, single seeds elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnlab.config.wording import in_words
from attnlab.documents.nodes import Axis, Control, Figure, Level, Line, Lines, Name, Node
from attnlab.documents.numbers import known
from attnlab.metrics.measures import title_of
from attnlab.runs.result import Curve
from attnlab.studies.report.courses import (
    AXES,
    MOST_POINTS,
    Courses,
    by_arm,
    course,
    form_of,
    lines_of,
    metric_of,
    title_of_curve,
)
from attnlab.studies.report.levels import levels
from attnlab.studies.report.study_results import Arm, StudyResults
from attnlab.studies.run_curves import SAMPLED_LOSS

TOUCHING = 0.004
"""The share of a figure's height within which two lines cannot be told apart."""


def curves(study: StudyResults) -> list[Node]:
    by_name = {name: by_arm(study, name) for name in _names(study)}
    by_name = {name: arms for name, arms in by_name.items() if any(arms.values())}
    present = {
        axis for arms in by_name.values() for runs in arms.values() for curve in runs for axis in curve
    }
    axes = [axis for axis in AXES if axis in present]
    if not by_name or not axes:
        return []
    drawn = {name: {arm: course(cs) for arm, cs in arms.items() if cs} for name, arms in by_name.items()}
    drawn = dict(sorted(drawn.items(), key=lambda one: _too_short(one[0], one[1])))
    views = {
        f"{i},{j}": [_chart(study, drawn[name], name, axis)]
        for i, name in enumerate(drawn)
        for j, axis in enumerate(axes)
    }
    arms = [arm for arm in study.arms if any(arm.name in courses for courses in drawn.values())]
    first = next(iter(drawn.values()))
    told = [*_spread_sentences(drawn), _timed(drawn), _averaged(by_name), _hidden(first), HIDE]
    note = " ".join(filter(None, told))
    alt = (
        f"{in_words(map(title_of_curve, drawn))} by {', '.join(axes)}, a line an arm: "
        f"{', '.join(arm.label for arm in arms)}"
    )
    controls = [Control("Show", [title_of_curve(name) for name in drawn]), Control("by", axes)]
    return [
        Figure(
            views,
            note=note,
            anchor="curves",
            alt=alt,
            controls=controls,
            legend=_legend(arms),
        )
    ]


HIDE = "Press a name to hide its line."


def _too_short(name: str, courses: Courses) -> bool:
    """Whether a dev loss has fewer than two points, so that the training loss tells more."""
    return name == "dev loss" and all(
        len(part["value"]) < 2 for one in courses.values() for part in one.parts
    )


def _spread_sentences(drawn: Mapping[str, Courses]) -> list[str]:
    """What lines, bands and thin lines are, of those that are there."""
    courses = [(arm, one) for by_arm in drawn.values() for arm, one in by_arm.items()]
    banded = {arm for arm, one in courses if one.banded}
    single = {arm for arm, one in courses if one.singles}
    alone = [arm for arm in dict.fromkeys(arm for arm, _ in courses) if arm not in banded | single]
    sentences = []
    if banded:
        sentences.append(
            "Lines are means of the seeds; bands, or bars of few points, go from the lowest seed to the "
            "highest."
        )
    if single:
        sentences.append("Thin lines are single seeds, where not all seeds have a point.")
    if alone:
        whose = f"{in_words(alone)}: one seed" if banded or single else "One seed"
        sentences.append(f"{whose}, the spread is unknown.")
    return sentences


def _timed(drawn: Mapping[str, Courses]) -> str:
    banded = any(one.banded for courses in drawn.values() for one in courses.values())
    return "By seconds, a point stands at the mean time of the seeds." if banded else ""


def _averaged(by_name: Mapping[str, Mapping[str, Sequence[Curve]]]) -> str:
    longest = max(len(c["step"]) for arms in by_name.values() for cs in arms.values() for c in cs)
    return "Long curves are averaged over neighbouring steps." if longest > MOST_POINTS else ""


def _hidden(courses: Courses) -> str:
    """Which lines lie on one another, so that only the last of them is seen."""
    means = {arm: one.mean for arm, one in courses.items() if len(one.mean.get("value", ())) > 1}
    values = [y for mean in means.values() for y in mean["value"]]
    room = TOUCHING * (max(values) - min(values)) if values else 0.0
    groups: list[list[str]] = []
    for arm, mean in means.items():
        for group in groups:
            other = means[group[0]]
            pairs = zip(mean["value"], other["value"], strict=False)
            if mean["step"] == other["step"] and all(abs(y - z) <= room for y, z in pairs):
                group.append(arm)
                break
        else:
            groups.append([arm])
    hidden = [in_words(group) for group in groups if len(group) > 1]
    return f"Lines that lie on one another: {'; '.join(hidden)}." if hidden else ""


def _legend(arms: Sequence[Arm]) -> list[tuple[Name, str]]:
    return [(Name(arm.name, arm.ink, arm.sound), arm.label) for arm in arms]


def _names(study: StudyResults) -> list[str]:
    extra = dict.fromkeys(name for _, run in study.runs() for name in run.extra_curves)
    return ["dev loss", "train loss", *(name for name in extra if not name.startswith("train "))]


# ---------------------------------------------------------------- as charts
def _chart(study: StudyResults, drawn: Courses, name: str, axis: str) -> Lines:
    placed = all(known(x) for one in drawn.values() for part in one.parts for x in part[axis])
    axis = axis if placed else "step"  # a curve that only knows its steps stays by step
    lines = _lines(study, drawn, axis)
    shown = title_of_curve(name)
    y = Axis(f"{shown} (nats)" if name.endswith("loss") else shown, form=form_of(name))
    return Lines(lines, Axis(axis, from_zero=True), y, levels=_levels(study, name))


def _lines(study: StudyResults, drawn: Courses, axis: str) -> list[Line]:
    return [line for arm in study.arms if arm.name in drawn for line in lines_of(arm, drawn[arm.name], axis)]


def _levels(study: StudyResults, name: str) -> list[Level]:
    return levels(study, metric_of(name)) if name.startswith("dev ") else []


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
    note = (
        "Dev is the split, or the batches of it that training.evaluate_batches allows. Train is a fixed "
        "sample of the rows that were trained on, at most 16 batches, scored after the epoch as dev is: in "
        "eval mode, with the weights of that moment."
    )
    named = {f"{name} {i}": side for name, sides in by_name.items() for i, side in enumerate(sides)}
    return [
        Figure(
            views,
            note=" ".join([*_spread_sentences(named), note, HIDE]),
            anchor="epochs",
            alt=f"{in_words(map(title_of, by_name))} of train and of dev by epoch, a line an arm",
            controls=[Control("Show", [title_of(name).removeprefix("dev ") for name in by_name])],
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


def _by_epoch(study: StudyResults, name: str) -> Courses:
    placed = {arm: [c for c in runs if c.get("epoch")] for arm, runs in by_arm(study, name).items()}
    return {arm: course(runs, by="epoch") for arm, runs in placed.items() if runs}


def _panels(study: StudyResults, name: str, sides: Sequence[Courses]) -> list[Lines]:
    known_levels = levels(study, name)
    span = _span(sides, known_levels)
    title, form = title_of(name).removeprefix("dev "), form_of(name)
    return [
        Lines(
            [
                line
                for arm in study.arms
                if arm.name in drawn
                for line in lines_of(arm, drawn[arm.name], "epoch")
            ],
            Axis("epoch", from_zero=True),
            Axis(f"{side} {title}", span=span, form=form),
            levels=known_levels if side == "dev" else (),
        )
        for side, drawn in zip(("train", "dev"), sides, strict=True)
    ]


def _span(sides: Sequence[Courses], known_levels: Sequence[Level]) -> tuple[float, float] | None:
    """One scale for both: a gap between train and dev is then a distance that the eye can measure."""
    keys = ("value", "low", "high")
    values = [
        y
        for drawn in sides
        for one in drawn.values()
        for part in one.parts
        for key in keys
        for y in part[key]
        if known(y)
    ]
    if not values:
        return None
    values += [level.value for level in known_levels]
    margin = 0.05 * (max(values) - min(values)) or 0.05
    return min(values) - margin, max(values) + margin
