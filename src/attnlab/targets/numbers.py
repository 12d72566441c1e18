"""A number for each text, or for how alike two texts are."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import Labels
from attnlab.metrics.metric import Examples
from attnlab.metrics.numbers import ExplainedVariance
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value
from attnlab.targets.bag_of_words import NUMBER, BagOfWords
from attnlab.targets.classes import worst
from attnlab.targets.report import PredictingTask, TargetReport
from attnlab.targets.target import Row, Said, Target, finding


class NumberTarget(Target):
    """A number."""

    name = "number"
    told_by_words = True

    def summary(self, labels: Iterable[Any]) -> Labels:
        values = [float(label) for label in labels]
        mean = math.fsum(values) / max(1, len(values))
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(1, len(values)))
        return Labels(self.name, examples=len(values), mean=mean, deviation=spread)

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        return {"number": float(label)}

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        if labels.deviation == 0:
            raise DataError(
                f"All {labels.examples:,} rows of the training split have the number {labels.mean:g}; there "
                "is nothing to learn. Name another column with data.corpus.label."
            )

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        return (scores[0] - row["targets"]) ** 2

    def plain_prediction(self, scores: Tensor, row: Row, labels: Labels) -> dict[str, Any]:
        """The score in the unit of the labels."""
        return {"predicted_number": float(scores[0]) * labels.deviation + labels.mean}

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        """The variance of the numbers of rows of which the same is given."""
        groups: dict[Hashable, list[float]] = {}
        for context, number in zip(given, targets.tolist(), strict=True):
            groups.setdefault(context, []).append(number)
        spreads = ((value - sum(values) / len(values)) ** 2 for values in groups.values() for value in values)
        return sum(spreads) / len(given)

    def majority(self, examples: Examples, labels: Labels) -> Finding:
        """Beside always saying the mean, whose R² is 0."""
        if len(examples) < 2 or not np.ptp(examples["number"]):
            return finding("majority", Outcome.NOT_APPLICABLE, "one_number")
        explained = ExplainedVariance().interval(examples)
        values: dict[str, Value] = {"low": explained.low, "high": explained.high, "n": explained.n}
        if explained.low > 0:
            return finding("majority", Outcome.PASS, "better_than_mean", explained.value, **values)
        kind = "worse_than_mean" if explained.high < 0 else "not_better_than_mean"
        return finding("majority", Outcome.FAIL, kind, explained.value, **values)

    def findings(self, examples: Examples, labels: Labels) -> list[Finding]:
        return []  # a report shows R² itself

    def report(self, task: PredictingTask, texts: Sequence[Example], examples: Examples) -> TargetReport:
        """The largest losses: of numbers all are wrong, more or less."""
        wrong = np.ones(len(examples), bool)
        return TargetReport(mistakes=worst(task, texts, examples, wrong=wrong, by=examples["nats"]))

    def bag_of_words(self, task: PredictingTask, train: Sequence[Example]) -> Said:
        mean, deviation = task.labels.mean, task.labels.deviation or 1.0

        def right(texts: Sequence[Example]) -> NDArray[np.float64]:
            return np.array([float(task.label_of(text)) for text in texts])

        model = BagOfWords.fit(train, ((right(train) - mean) / deviation)[:, None], NUMBER)
        return lambda texts: Examples(
            {"number": right(texts), "predicted_number": model(texts)[:, 0] * deviation + mean}
        )

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        return float(truth["number"])
