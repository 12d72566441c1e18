"""What single texts show: losses with and without the words to come, classes that are confused, and whether
a model is right as often as it is sure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.config.wording import range_of
from attnlab.documents.nodes import (
    Axis,
    Figure,
    Heat,
    Inline,
    Line,
    Lines,
    Name,
    Node,
    Number,
    Table,
    TableColumn,
)
from attnlab.evaluation.statistics import mean_of_seeds
from attnlab.metrics import METRICS
from attnlab.metrics.classes import BINS
from attnlab.metrics.measures import form_of, title_of
from attnlab.studies.report.study_results import Arm, StudyResults

MOST_CLASSES = 30
"""Of a confusion matrix whose cells can still be told apart."""
FEW = 10
"""Predictions below which a point of the reliability curve says little."""


def texts_alone(study: StudyResults) -> list[Node]:
    """The loss of each text as it is reported, against that with every later token removed."""
    pairs = {arm: _first(arm, "texts_alone") or [] for arm in study.arms}
    lines = [
        Line(arm.name, [x for x, _ in own], [y for _, y in own], label=arm.label, ink=arm.ink, dots=True)
        for arm, own in pairs.items()
        if own
    ]
    if not lines:
        return []
    chart = Lines(lines, Axis("parallel loss (nats)"), Axis("token-by-token loss (nats)"), diagonal=True)
    note = (
        "A point is a dev text, by the first seed of each arm. On the diagonal both losses agree, as they do "
        "for a model that sees no later token; above it, the reported loss is lower than the model can reach "
        "when it writes."
    )
    shown = [arm for arm, own in pairs.items() if own]
    return [
        Figure(
            {"": [chart]},
            note=note,
            anchor="texts-alone",
            alt="Token-by-token against parallel loss, a point a text",
            legend=_legend(shown),
        )
    ]


def confused(study: StudyResults) -> list[Node]:
    """Which classes are taken for which: a map an arm, over its seeds."""
    counts = {arm: _summed([one["counts"] for one in _each(arm)]) for arm in study.arms if _each(arm)}
    names: list[str] = next((one["names"] for arm in counts for one in _each(arm)), [])
    same = {arm: own for arm, own in counts.items() if all(one["names"] == names for one in _each(arm))}
    if not same or not 2 <= len(names) <= MOST_CLASSES:
        return []
    maps = [
        Heat(names, _shares(own), 1.0, rows="right class", columns="predicted class", verb="was called")
        for own in same.values()
    ]
    return [
        Figure(
            {"": maps},
            note="A row is the right class, a column the predicted one: shares of the row's dev texts, over "
            "all seeds. A model without mistakes has only its diagonal.",
            anchor="confusion",
            alt=f"Predicted by right class, a map an arm: {', '.join(arm.label for arm in same)}",
            panels=[Name(arm.label, arm.ink, arm.sound) for arm in same],
            square=True,
        )
    ]


def reliable(study: StudyResults) -> list[Node]:
    """How often predictions of each confidence are right."""
    bins = {arm: _bins([one["bins"] for one in _each(arm)]) for arm in study.arms if _each(arm)}
    lines = [
        Line(
            arm.name,
            [one["confidence"] for one in own],
            [one["accuracy"] for one in own],
            hover=[f"{one['n']:,} predictions" for one in own],
            label=arm.label,
            ink=arm.ink,
        )
        for arm, own in bins.items()
        if own
    ]
    if not lines:
        return []
    axes = Axis("confidence", form="percent"), Axis("share that is right", form="percent")
    note = (
        "Predictions of dev in bins of their confidence, over all seeds. Below the diagonal a model is surer "
        f"than it is right. Bins of fewer than {FEW} predictions are left out."
    )
    return [
        Figure(
            {"": [Lines(lines, *axes, diagonal=True)]},
            note=note,
            anchor="reliability",
            alt="Share that is right by confidence, a line an arm",
            legend=_legend(list(bins)),
        )
    ]


def _legend(arms: Sequence[Arm]) -> list[tuple[Name, str]]:
    return [(Name(arm.name, arm.ink, arm.sound), arm.label) for arm in arms]


def by_length(study: StudyResults) -> list[Node]:
    """The score of what was written, BLEU where there is one, by the length of the sources."""
    runs = {
        arm: [run.extra["by_length"] for run in arm.runs if run.extra.get("by_length")] for arm in study.arms
    }
    shown = {arm: own for arm, own in runs.items() if own}
    if not shown:
        return []
    buckets = next(iter(shown.values()))[0]
    unit, metric = buckets[0]["unit"], next(iter(buckets[0]["scores"]))
    lines = [length_line(arm, own, metric) for arm, own in shown.items()]
    note = (
        "A point is a bucket of dev's sources at its mean length: the mean over seeds, with its 95% "
        "interval, over texts where there is one seed."
    )
    figure = Figure(
        {"": [Lines(lines, Axis(f"{unit} of the source"), Axis(title_of(metric), from_zero=True))]},
        note=note,
        anchor="by-length",
        alt=f"{title_of(metric)} by the length of the source, a line an arm",
        legend=_legend(list(shown)),
    )
    return [figure, length_table(list(shown), lines, buckets, metric)]


def length_table(
    arms: Sequence[Arm], lines: Sequence[Line], buckets: Sequence[Mapping[str, Any]], metric: str
) -> Table:
    """The same in numbers: a row a bucket, a column an arm."""
    rows: list[tuple[Inline, ...]] = []
    for place, bucket in enumerate(buckets):
        ends = [((line.low or ())[place], (line.high or ())[place]) for line in lines]
        numbers = [
            Number(line.y[place], low, high, form=form_of(metric))
            for line, (low, high) in zip(lines, ends, strict=True)
        ]
        rows.append((range_of(bucket["least"], bucket["most"]), bucket["n"], *numbers))
    heads = [TableColumn(Name(arm.label, arm.ink, arm.sound), right=True) for arm in arms]
    first = TableColumn(f"{buckets[0]['unit']} of the source", whole=True)
    return Table([first, TableColumn("texts", right=True), *heads], rows, title=title_of(metric))


def length_line(arm: Arm, runs: Sequence[Sequence[Mapping[str, Any]]], metric: str) -> Line:
    """An arm's score in each bucket, which are the same in all of its runs: they have the same sources."""
    least, most = METRICS[metric].limits
    values, lows, highs = list[float](), list[float | None](), list[float | None]()
    for buckets in zip(*runs, strict=True):
        scores = [bucket["scores"][metric] for bucket in buckets]
        seeds = mean_of_seeds([score["value"] for score in scores])
        several = len(scores) > 1
        between = max(seeds.low, least), min(seeds.high, most)
        ends = between if several else (scores[0]["low"], scores[0]["high"])
        values.append(seeds.value)
        lows.append(ends[0])
        highs.append(ends[1])
    hover = [f"{range_of(one['least'], one['most'])} {one['unit']}, {one['n']:,} texts" for one in runs[0]]
    means = [one["mean"] for one in runs[0]]
    return Line(arm.name, means, values, lows, highs, hover=hover, label=arm.label, ink=arm.ink)


def _first(arm: Arm, name: str) -> Any:
    """What the first of an arm's runs that has it recorded."""
    return next((run.extra[name] for run in arm.runs if run.extra.get(name)), None)


def _each(arm: Arm) -> list[Mapping[str, Any]]:
    return [run.extra["predictions"] for run in arm.runs if run.extra.get("predictions")]


def _summed(counts: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    """Cell by cell, over seeds."""
    return [[sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*counts, strict=True)]


def _shares(counts: Sequence[Sequence[int]]) -> list[list[float | None]]:
    """Of each row; a class that no text has gives none."""
    return [[round(cell / sum(row), 4) if sum(row) else None for cell in row] for row in counts]


def _bins(seeds: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Bins of all seeds together: those of a run are told apart by their confidence alone."""
    rows: dict[int, list[Mapping[str, Any]]] = {}
    for one in (one for own in seeds for one in own):
        rows.setdefault(math.ceil(one["confidence"] * BINS), []).append(one)
    merged = []
    for place in sorted(rows):
        n = sum(one["n"] for one in rows[place])
        mean = {
            key: sum(one[key] * one["n"] for one in rows[place]) / n for key in ("confidence", "accuracy")
        }
        merged += [{**mean, "n": n}] if n >= FEW else []
    return merged
