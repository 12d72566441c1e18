"""One class for each text, or any number of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.values import without_middle
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import ClassNames, Labels, is_number, most_frequent, twice_written
from attnlab.metrics.classes import BINS, ClassScores, confidence_bins, predicted
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding
from attnlab.targets.bag_of_words import ANY_CLASSES, ONE_CLASS, BagOfWords
from attnlab.targets.predictions import judge_predictions
from attnlab.targets.relabelling import Predictions
from attnlab.targets.report import (
    WRONG,
    Baseline,
    Confusion,
    MajorityShare,
    Mistake,
    PredictingTask,
    ReliabilityBin,
    TargetReport,
    shown,
)
from attnlab.targets.target import Row, Said, Target, entropy
from attnlab.targets.wording import SHOWN

MANY = 0.5
"""Different labels for each row from which on a column is hardly one of classes."""
FEW = 20
"""Rows among which as many labels may be different."""


class NamedTarget(ClassNames, Target):
    """Classes with names, of texts or of words."""

    least = 2
    """Classes that there is something to learn with."""

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        if len(labels.names) < self.least:
            only = f' the label "{labels.names[0]}"' if labels.names else " no label"
            raise DataError(
                f"All {labels.examples:,} rows of the training split have{only}; a classifier needs at least "
                "two classes. Give rows of another class, or name another column with data.corpus.label."
            )
        if not declared:
            refuse_unmeant(labels)

    def warnings(self, labels: Labels) -> list[str]:
        return [
            f'The class "{without_middle(name, SHOWN)}" has {count} example of {labels.examples:,} in the '
            "training split: a model can hardly learn it, and no score says whether it did. Give it more, or "
            "merge it with another."
            for name, count in zip(labels.names, labels.counts, strict=True)
            if count == 1
        ]


class ClassTarget(NamedTarget):
    """One of several classes."""

    one_name = True
    told_by_words = True

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        return scores.logsumexp(-1) - scores[row["targets"]]

    def plain_prediction(self, scores: Tensor, row: Row, labels: Labels) -> dict[str, Any]:
        powers = [math.exp(score - float(scores.max())) for score in scores.tolist()]
        return {"probabilities": [power / math.fsum(powers) for power in powers]}

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        return entropy(given, targets.tolist())

    def predictions(self, examples: Examples, labels: Labels) -> Predictions:
        right, guesses = (
            [labels.names[n] for n in numbers] for numbers in (examples["label"], predicted(examples))
        )
        return Predictions(right, guesses, classes=labels.names)

    def report(self, task: PredictingTask, texts: Sequence[Example], examples: Examples) -> TargetReport:
        number, share = most_frequent(Counter(examples["label"].tolist()))
        counts = confusion(examples)
        scores = zip(task.labels.names, counts.diagonal(), counts.sum(1), counts.sum(0), strict=True)
        wrong = predicted(examples) != examples["label"]
        return TargetReport(
            majority=MajorityShare(task.labels.names[number], share),
            classes=tuple(ClassScores.of(name, right=r, true=t, predicted=s) for name, r, t, s in scores),
            confusion=Confusion(list(task.labels.names), counts.tolist()),
            reliability=reliability(examples),
            mistakes=worst(task, texts, examples, wrong=wrong, by=examples["probabilities"].max(1)),
            checks=judged(self.predictions(examples, task.labels), texts),
            mistakes_first=True,
        )

    def baselines(self, task: PredictingTask, texts: Sequence[Example]) -> list[Baseline]:
        if not texts:
            return []
        known = (task.labels.number(task.label_of(example), example.place) for example in texts)
        number, share = most_frequent(Counter(known))
        always = f"always predicting “{task.labels.names[number]}”, the most frequent class of these texts"
        return [Baseline("majority", share, None, len(texts), always)]

    def bag_of_words(self, task: PredictingTask, train: Sequence[Example]) -> Said:
        def right(texts: Sequence[Example]) -> NDArray[np.int64]:
            return np.array([task.labels.number(task.label_of(text), text.place) for text in texts])

        model = BagOfWords.fit(train, np.eye(len(task.labels.names))[right(train)], ONE_CLASS)
        return lambda texts: Examples({"label": right(texts), "probabilities": model(texts)})

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        return labels.names[truth["label"]]


class SetTarget(NamedTarget):
    """Any number of classes, each decided by itself."""

    name = "classes"
    least = 1
    told_by_words = True

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        numbers = [known.number(name, place) for name in self.names(label)]
        return {"labels": [int(number in numbers) for number in range(len(known.names))]}

    def stratum(self, label: Any) -> str:
        return ""

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        return (torch.log1p(scores.exp()) - scores * row["targets"]).sum()

    def plain_prediction(self, scores: Tensor, row: Row, labels: Labels) -> dict[str, Any]:
        return {"chances": [1 / (1 + math.exp(-score)) for score in scores.tolist()]}

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        return sum(entropy(given, column.tolist()) for column in targets.T)

    def predictions(self, examples: Examples, labels: Labels) -> Predictions:
        """A set of labels counts as one."""
        flags = examples["labels"], examples["chances"] > 0.5
        right, guesses = ([chosen(labels, row) for row in rows] for rows in flags)
        true, said = ([" + ".join(names) or "none" for names in sets] for sets in (right, guesses))
        return Predictions(true, said, sets=(right, guesses))

    def report(self, task: PredictingTask, texts: Sequence[Example], examples: Examples) -> TargetReport:
        wrong = ((examples["chances"] > 0.5) != examples["labels"]).any(1)
        return TargetReport(
            mistakes=worst(task, texts, examples, wrong=wrong, by=examples["nats"]),
            checks=judged(self.predictions(examples, task.labels), texts),
        )

    def bag_of_words(self, task: PredictingTask, train: Sequence[Example]) -> Said:
        def right(texts: Sequence[Example]) -> NDArray[np.bool_]:
            rows = [self.row(task.label_of(text), task.labels, text.place)["labels"] for text in texts]
            return np.array(rows, bool)

        model = BagOfWords.fit(train, right(train).astype(np.float64), ANY_CLASSES)
        return lambda texts: Examples({"labels": right(texts), "chances": model(texts)})

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        return ", ".join(chosen(labels, truth["labels"])) or "none"


def chosen(labels: Labels, flags: Iterable[bool]) -> list[str]:
    """The names of a set of classes."""
    return [name for name, there in zip(labels.names, flags, strict=True) if there]


def judged(predictions: Predictions, texts: Sequence[Example]) -> tuple[Finding, ...]:
    """What the checks of predictions say, that of repeated texts included."""
    read = [as_read(example) for example in texts]
    given = Predictions(predictions.labels, predictions.predicted, texts=read, sets=predictions.sets)
    return tuple(judge_predictions(given))


def as_read(example: Example) -> str:
    """What a classifier reads of an example, as one text."""
    text = f"{example.text} {example.pair or ''}".strip()
    return text if example.image is None else f"{text} [picture {example.image.digest}]".strip()


def confusion(examples: Examples) -> NDArray[np.int64]:
    """(C,C) how often each class (row) was called each (column)."""
    size = examples["probabilities"].shape[1]
    counts = np.zeros((size, size), np.int64)
    np.add.at(counts, (examples["label"], predicted(examples)), 1)
    return counts


def reliability(examples: Examples) -> tuple[ReliabilityBin, ...]:
    """How often predictions of each confidence are right, in the bins of the calibration error."""
    confidence, right, place = confidence_bins(examples)
    bins = (place == number for number in range(BINS))
    return tuple(
        ReliabilityBin(float(confidence[own].mean()), float(right[own].mean()), int(own.sum()))
        for own in bins
        if own.any()
    )


def worst(
    task: PredictingTask,
    texts: Sequence[Example],
    examples: Examples,
    *,
    wrong: NDArray[np.bool_],
    by: NDArray[np.float64],
) -> tuple[Mistake, ...]:
    """The wrong predictions with the largest `by`."""
    places = np.flatnonzero(wrong)
    order = places[np.argsort(-by[places], kind="stable")][:WRONG]
    columns = {name: column[order] for name, column in examples.columns.items()}
    chosen = [texts[number] for number in order]
    predictions = task.predictions(columns, chosen)
    return tuple(
        Mistake(text.place, shown(text), task.label_of(text), prediction.answer, prediction.confidence)
        for text, prediction in zip(chosen, predictions, strict=True)
    )


def refuse_unmeant(labels: Labels) -> None:
    """Refuse a column that hardly holds classes."""
    if len(labels.names) > max(FEW, MANY * labels.examples):
        raise DataError(
            f"The label column has {len(labels.names):,} different values in {labels.examples:,} rows, such "
            f'as "{labels.names[0]}": too many to be classes. Name another column with data.corpus.label; '
            "to predict a number use task = regression."
        )
    alike = twice_written(labels.names)
    if alike:
        raise DataError(
            f'The labels "{alike[0]}" and "{alike[1]}" are one number written in two ways, and would be two '
            "classes; write them alike."
        )
    words = [name for name in labels.names if not is_number(name)]
    if words and len(words) < len(labels.names):
        numbers = [name for name in labels.names if is_number(name)]
        raise DataError(
            f"The label column mixes numbers ({listed(numbers)}) and words ({listed(words)}): one class "
            "under two names would be two. Write them alike; if they are all classes, list them: "
            f"data.corpus.labels = [{', '.join(map(repr, labels.names[:3]))}, …]."
        )


def listed(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
