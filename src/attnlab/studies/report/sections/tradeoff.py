"""Quality against cost: what an arm reached, and what it took."""

from __future__ import annotations

from attnlab.documents.nodes import Axis, Control, Figure, Line, Lines, Name, Node
from attnlab.documents.numbers import known, scaled
from attnlab.metrics.metric import Estimate
from attnlab.studies.report.levels import levels
from attnlab.studies.report.metric_display import estimate, metric
from attnlab.studies.report.study_results import Arm, StudyResults

COSTS = {"training time (s)": "seconds", "FLOPs": "flops", "parameters": "parameters"}
NOTE = (
    "A point an arm, with 95% intervals over seeds; FLOPs and parameters are counted. The best arms of their "
    "cost lie at the {corner} edge. Invalid and failed arms are left out."
)


def tradeoff(study: StudyResults) -> list[Node]:
    """A figure of the study's own metric, by each cost that differs between arms."""
    scores = {arm: estimate(arm, study.metric) for arm in study.arms if arm.sound}
    arms = [arm for arm, score in scores.items() if score is not None and known(score.value)]
    costs = {title: {arm: _cost(arm, name) for arm in arms} for title, name in COSTS.items()}
    costs = {title: own for title, own in costs.items() if len({cost.value for cost in own.values()}) > 1}
    if len(arms) < 2 or not costs:
        return []
    lower = metric(study, study.metric).lower_is_better
    return [
        Figure(
            {str(place): [_chart(study, title, own)] for place, (title, own) in enumerate(costs.items())},
            note=NOTE.format(corner="lower left" if lower else "upper left"),
            anchor="tradeoff",
            alt=f"{metric(study, study.metric).title} against {' or '.join(costs)}, a point an arm: "
            + ", ".join(_told(study, arm) for arm in arms),
            controls=[Control("Cost", list(costs))],
            legend=[(Name(arm.name, arm.ink, arm.sound), arm.label) for arm in arms],
        )
    ]


def _cost(arm: Arm, name: str) -> Estimate:
    if name in arm.scores:
        return arm.scores[name]
    counted = getattr(arm.outcome, name, None)
    return Estimate(float(counted) if counted else float("nan"), float("nan"), float("nan"), 1)


def _chart(study: StudyResults, title: str, costs: dict[Arm, Estimate]) -> Lines:
    measure = metric(study, study.metric)
    lines = []
    for arm, cost in costs.items():
        quality = estimate(arm, study.metric)
        if quality is None or not known(cost.value):
            continue
        told = f"{scaled(cost.value)}, {title}"
        lines.append(
            Line(
                arm.name,
                [cost.value],
                [quality.value],
                [quality.low],
                [quality.high],
                [told],
                arm.label,
                arm.ink,
                dots=True,
                x_low=[cost.low] if known(cost.low) else None,
                x_high=[cost.high] if known(cost.high) else None,
            )
        )
    y = Axis(measure.title, form=measure.form if measure.form == "percent" else "plain")
    return Lines(lines, Axis(title), y, levels=levels(study, study.metric))


def _told(study: StudyResults, arm: Arm) -> str:
    quality = estimate(arm, study.metric)
    return f"{arm.name} {quality.value:.4g}" if quality else arm.name
