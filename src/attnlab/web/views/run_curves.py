"""The curves of a run: losses and scores, and what training cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Axis, Control, Figure, Level, Line, Lines, Name, Node, Sentence
from attnlab.documents.palette import ink
from attnlab.metrics import METRICS
from attnlab.metrics.measures import form_of, title_of
from attnlab.runs.faults import FAULTS, RunError
from attnlab.runs.summary import read_baselines
from attnlab.web.course import RunCourse
from attnlab.web.indexed import IndexedRun

AXES = {"step": "step", "tokens": "tokens", "flops": "FLOPs", "seconds": "seconds"}
SPLITS = {"training": ink(0), "dev": ink(1)}
"""The colours of a run's own curves."""
COST = ("learning rate", "gradient norm", "tokens/s")


def curves(run: IndexedRun, course: RunCourse) -> list[Node]:
    """Losses and scores, and what training cost, over steps, tokens, FLOPs or seconds."""
    if not course.series:
        return [Sentence("No step was taken yet.", "fine")]
    losses = [name for name in ("train loss", "dev loss") if name in course.series]
    scores = [name for name in course.series if name.removeprefix("dev ") in METRICS and name != "dev loss"]
    quantities = {"loss": losses} | {title_of(name.removeprefix("dev ")): [name] for name in scores}
    quantities |= {name: [name] for name in COST if name in course.series}
    levels = [
        Level(one["name"], one["value"])
        for one in baselines_of(run.folder)
        if one["metric"] == run.summary.metric
    ]
    return [_figure("course", {name: own for name, own in quantities.items() if own}, course, levels, run)]


def baselines_of(folder: Path) -> Sequence[Any]:
    try:
        return read_baselines(folder)
    except (RunError, ConfigError, *FAULTS):
        return ()


def _figure(
    anchor: str,
    quantities: Mapping[str, Sequence[str]],
    course: RunCourse,
    levels: Sequence[Level],
    run: IndexedRun,
) -> Figure:
    views = {}
    for place, (title, names) in enumerate(quantities.items() or [("loss", ())]):
        for number, (axis, called) in enumerate(AXES.items()):
            lines = [
                Line(whose, own.places(axis), own.values, ink=SPLITS[whose], label=name)
                for name in names
                for whose, own in [(split_of(name), course.series[name])]
            ]
            known = levels if title_of(run.summary.metric) == title else ()
            percent = any(form_of(name.removeprefix("dev ")) == "percent" for name in names)
            up = Axis(title, form="percent" if percent else "plain")
            views[f"{place},{number}"] = [Lines(lines, Axis(called), up, levels=known)]
    return Figure(
        views,
        anchor=anchor,
        alt="The course of the run",
        controls=[Control("Show", list(quantities) or ["loss"]), Control("over", list(AXES.values()))],
        legend=[
            (Name(whose, own), whose)
            for whose, own in SPLITS.items()
            if whose in {split_of(name) for name in course.series}
        ],
    )


def split_of(series: str) -> str:
    """Whose values a curve shows: of training, or of dev."""
    return "dev" if series.startswith("dev ") else "training"
