"""Scores of written texts by the length of what they were written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnlab.metrics import METRICS
from attnlab.metrics.metric import Estimate, Examples, known

BUCKETS = 5
FEW = 10
"""Texts of a bucket, below which there are fewer buckets."""
SCORED = ("bleu", "chrf", "exact_text")
Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class LengthScores:
    """Scores of the texts whose sources have from `least` to `most` words, or characters where sources have
    one word each."""

    unit: Unit
    least: int
    most: int
    mean: float
    n: int
    scores: Mapping[str, Estimate]

    def as_json(self) -> dict[str, Any]:
        scores = {
            name: {"value": known(one.value), "low": known(one.low), "high": known(one.high)}
            for name, one in self.scores.items()
        }
        about = {"unit": self.unit, "least": self.least, "most": self.most, "mean": self.mean, "n": self.n}
        return {**about, "scores": scores}


def scores_by_length(examples: Examples, metrics: Sequence[str] = SCORED) -> tuple[LengthScores, ...]:
    """Scores in buckets of about equal numbers of texts, the shortest sources first; none where sources are
    not known, or hardly differ in length."""
    if "source" not in examples or len(examples) < 2 * FEW:
        return ()
    lengths, unit = source_lengths(examples["source"].tolist())
    count = min(BUCKETS, len(lengths) // FEW)
    inner = np.quantile(lengths, np.arange(1, count) / count, method="lower")
    bucket = np.searchsorted(np.unique(inner), lengths, side="left")
    if len(np.unique(bucket)) < 2:
        return ()
    asked = {name: METRICS.build(name) for name in metrics}
    built = {name: metric for name, metric in asked.items() if metric.applies(examples)}
    buckets = []
    for number in np.unique(bucket):
        rows = np.flatnonzero(bucket == number)
        own = Examples({name: column[rows] for name, column in examples.columns.items()})
        scores = {name: metric.interval(own) for name, metric in built.items()}
        sizes = lengths[rows]
        buckets.append(
            LengthScores(unit, int(sizes.min()), int(sizes.max()), float(sizes.mean()), len(rows), scores)
        )
    return tuple(buckets)


def source_lengths(sources: Sequence[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Unit]:
    """Words of each source; characters where most have one word."""
    words = np.array([len(source.split()) for source in sources], np.int64)
    if np.median(words) > 1:
        return words, "words"
    return np.array([len(source.strip()) for source in sources], np.int64), "characters"
