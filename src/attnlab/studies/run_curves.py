"""A run's course out of its metrics.jsonl, as the report draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.metrics import METRICS
from attnlab.metrics.measures import TRAIN
from attnlab.runs.metrics_file import read_events

OF_LOSS = {"perplexity", "bits_per_byte"}
"""Metrics that follow from the loss, and have no curve of their own."""
SAMPLED_LOSS = "train loss after each epoch"
"""Of a fixed sample of train, in eval mode; "train loss" is that of the steps' own batches."""
POINTS = 200
"""How many points a curve is thinned to."""

PLACES = ("step", "tokens", "seconds", "epoch")

Curve = dict[str, list[float]]


@dataclass(frozen=True)
class RunCurves:
    """A run's course: its steps, its evaluations, and further curves by their titles."""

    curve: Curve
    dev_curve: Curve
    extra_curves: Mapping[str, Curve]


def curves(file: Path) -> RunCurves:
    """A run's course out of its metrics.jsonl, thinned: each point is the mean of its stretch."""
    steps, evaluations, scores = [], [], dict[str, list[dict[str, float]]]()
    tokens = seconds = epoch = 0.0
    for event in read_events(file):
        if event["event"] == "stepped":
            tokens, seconds = tokens + event["tokens"], seconds + event["seconds"]
            epoch = event.get("epoch", epoch)
            place = {"step": event["step"], "tokens": tokens, "seconds": seconds, "epoch": epoch}
            steps.append(place | {"loss": event["loss"], "gradient": event["gradient"]})
        elif event["event"] == "evaluated":
            place = {"step": event["step"], "tokens": tokens, "seconds": seconds, "epoch": epoch}
            evaluations.append(place | {"loss": event["loss"]})
            for name, value in event["scores"].items():
                if (curve := curve_of(name)) is not None:
                    scores.setdefault(curve, []).append(place | {"value": value})
    course = thinned(steps)
    gradient = course.pop("gradient", [])
    axes = {name: course[name] for name in PLACES if name in course}
    further = {name: thinned(scores[name]) for name in sorted(scores)}
    further["gradient norm"] = axes | {"value": gradient}
    return RunCurves(course, thinned(evaluations), further)


def curve_of(score: str) -> str | None:
    """The curve of a score of an evaluation, such as "dev accuracy"; None for what has none of its own."""
    name = score.removeprefix(TRAIN)
    if name not in METRICS or name in OF_LOSS:
        return None
    if score == name:
        return f"dev {name}"
    return f"train {name}" if name != "loss" else SAMPLED_LOSS


def placed(curve: Curve, file: Path) -> Curve:
    """A curve by steps with the tokens, seconds and epochs of those steps beside them."""
    at, tokens, seconds = dict[float, tuple[float, float, float]](), 0.0, 0.0
    for event in read_events(file):
        if event["event"] == "stepped":
            tokens, seconds = tokens + event["tokens"], seconds + event["seconds"]
            at[event["step"]] = tokens, seconds, event.get("epoch", 0.0)
    where = [at.get(step, (0.0, 0.0, 0.0)) for step in curve["step"]]
    return {name: [place[i] for place in where] for i, name in enumerate(PLACES[1:])} | curve


def thinned(points: Sequence[Mapping[str, float]], most: int = POINTS) -> Curve:
    """At most so many points: the place is each stretch's end, every other number its mean."""
    if not points:
        return {}
    size = math.ceil(len(points) / most)
    stretches = [points[start : start + size] for start in range(0, len(points), size)]
    return {
        name: [s[-1][name] if name in PLACES else math.fsum(p[name] for p in s) / len(s) for s in stretches]
        for name in points[0]
    }
