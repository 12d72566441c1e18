"""Train and dev by epoch, side by side on one scale: every arm in one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.documents.numbers import known
from attnlab.studies.report import plots
from attnlab.studies.report.sections.curves import by_arm, line_of, over_seeds
from attnlab.studies.report.study_results import StudyResults
from attnlab.studies.run_curves import SAMPLED_LOSS

Drawn = Mapping[str, dict[str, list[Any]]]


def by_epoch(study: StudyResults) -> dict[str, Any] | None:
    found = {name: [_drawn(study, side) for side in sides] for name, sides in _sides(study).items()}
    if not found:
        return None
    views = {str(i): _panels(study, name, sides) for i, (name, sides) in enumerate(found.items())}
    arms = [arm for arm in study.arms if any(arm.name in side for sides in found.values() for side in sides)]
    plot = plots.Plot(
        "epochs",
        f"{' and '.join(found)} of train and of dev by epoch, a line an arm",
        views,
        controls=[plots.PlotControl("Show", list(found))],
        panels=(None, None),
        legend=[plots.Legend(arm.name, arm.label, arm.ink, arm.sound) for arm in arms],
    )
    return {"plots": [plot], "seeds": len(study.seeds)}


def _sides(study: StudyResults) -> dict[str, tuple[str, str]]:
    """The curves of train and of dev: of the study's own metric, and of the loss."""
    names = {name for _, run in study.runs() for name in run.extra_curves}
    metric = {study.metric: (f"train {study.metric}", f"dev {study.metric}")}
    own = {name: sides for name, sides in metric.items() if names.issuperset(sides)}
    return own | ({"loss": (SAMPLED_LOSS, "dev loss")} if SAMPLED_LOSS in names else {})


def _drawn(study: StudyResults, name: str) -> Drawn:
    held = {arm: [c for c in runs if c.get("epoch")] for arm, runs in by_arm(study, name).items()}
    return {arm: over_seeds(runs, by="epoch") for arm, runs in held.items() if runs}


def _panels(study: StudyResults, name: str, sides: Sequence[Drawn]) -> list[plots.Figure]:
    span = _span(sides)
    return [
        plots.lines(
            [line_of(arm, drawn[arm.name], "epoch") for arm in study.arms if arm.name in drawn],
            plots.axis("epoch", integer=True),
            plots.axis(f"{side} {name}") | span,
        )
        for side, drawn in zip(("train", "dev"), sides, strict=True)
    ]


def _span(sides: Sequence[Drawn]) -> dict[str, Any]:
    """One scale for both: a gap between train and dev is then a distance that the eye can measure."""
    keys = ("value", "low", "high")
    values = [
        y for drawn in sides for curve in drawn.values() for key in keys for y in curve[key] if known(y)
    ]
    if not values:
        return {}
    margin = 0.05 * (max(values) - min(values)) or 0.05
    return {"range": [min(values) - margin, max(values) + margin]}
