"""What words alone say of labels: whether the labels belong to the texts, and whether a model was needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.check import Case, Check
from attnlab.data.dataset import Dataset
from attnlab.data.example import Example
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Estimate, Examples, Floats, known
from attnlab.metrics.words import Loss
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.targets.bag_of_words import ONE_CLASS, TEXTS, BagOfWords
from attnlab.targets.target import Said
from attnlab.tasks.task import Task

ROWS = 2000
"""Training rows that are asked whether their labels go with their words: one half by the other."""
GAIN = 0.08
"""What words alone must be shown not to add to the most frequent label before labels are suspected."""
VARIED = 0.5
"""The share of different texts below which rows are too much alike to be told from their words."""
FITTED = "bag of words"
"""Under this a dataset keeps what was learned from its words."""


class WordBaseline(Check):
    """Bag of words: do the labels go with the words of their texts, and is the model better than that?

    Formula: a linear model of hashed words, pairs of words and runs of 2 and 4 characters (logistic, for
    numbers least squares, with a penalty on squares; for tags the most frequent of each word). Before
    training, of up to 2,000 rows each half is predicted from the other: where the accuracy is shown to be
    less than 8 points above that of the most frequent class (95% interval), and no nats are gained over the
    shares of the classes, the labels may not belong to these texts. After training, a linear model of up to
    3,000 training rows is better than the model where the whole 95% interval of the paired difference says
    so. Both are warnings.

    When it helps: a column that was sorted by itself, labels one row further down: no model can learn them,
    and hours later the accuracy is that of the most frequent class. And a transformer that is worse than
    counting words was not worth its training.

    Cannot see: labels that were moved in some rows only, or in fewer than about 400 rows; labels that depend
    on order or meaning and not on words (a suspicion there is wrong); pairs of texts and texts with pictures,
    of which labels are not suspected.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 3.0
    same_for_seeds: ClassVar[bool] = True
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if not case.task.target.told_by_words:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_labels")
        if case.when == "before":
            return self.suspicion(case)
        if case.examples is None or case.evaluation is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "not_scored")
        texts = case.dataset.texts("dev")
        words = said_by_words(case.dataset, case.task)([texts[n] for n in case.evaluation.numbers.tolist()])
        return self.judge(case.when, case.task, case.examples, words)

    def judge(self, when: When, task: Task, model: Examples, words: Examples) -> Finding:
        """A model compared with words alone on the same texts, by the metric that decides."""
        name = task.metrics[0]
        metric = METRICS.build(name)
        values: dict[str, Value] = {"metric": name, "share": metric.share, "n": len(model)}
        values |= {"model": metric.value(model), "words": metric.value(words)}
        difference = metric.difference(words, model)
        values |= {"low": known(difference.low), "high": known(difference.high)}
        sign = 1 if metric.better == "higher" else -1
        worse = sign * (difference.low if sign > 0 else difference.high) > 0  # false of nan
        outcome, kind = (Outcome.WARN, "better") if worse else (Outcome.PASS, "not_better")
        return self.finding(when, outcome, kind, difference.value, **values)

    # ---------------------------------------------------------------- before training
    def suspicion(self, case: Case) -> Finding:
        """Whether labels of classes may not belong to their texts."""
        task = case.task
        rows = spread_rows(case.dataset, ROWS) if task.target.one_name else []
        if not rows or any(row.pair is not None or row.image is not None for row in rows):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "not_suspected")
        if len({row.text for row in rows}) < VARIED * len(rows):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "alike", rows=len(rows))
        numbers = np.array([task.labels.number(task.label_of(row), row.place) for row in rows])
        return self.judge_labels(case.when, rows, numbers, classes=len(task.labels.names))

    def judge_labels(
        self, when: When, rows: Sequence[Example], labels: NDArray[np.int64], *, classes: int
    ) -> Finding:
        """What words of one half of rows say of the other, compared with the shares of the classes."""
        chances, targets = np.zeros((len(rows), classes)), np.eye(classes)[labels]
        for half in (slice(0, None, 2), slice(1, None, 2)):
            other = slice(1 - half.start, None, 2)
            chances[other] = BagOfWords.fit(rows[half], targets[half], ONE_CLASS)(rows[other])
        shares = np.bincount(labels, minlength=chances.shape[1]) / len(labels)
        right = (chances.argmax(1) == labels).astype(np.float64)
        gain = mean(right - (labels == shares.argmax()))
        own = chances[np.arange(len(labels)), labels]
        nats = mean(np.log(np.maximum(own, 1e-12)) - np.log(shares[labels]))
        values: dict[str, Value] = {"accuracy": float(right.mean()), "share": float(shares.max())}
        values |= {"n": len(labels), "low": known(gain.low), "high": known(gain.high), "nats": nats.value}
        at_chance = gain.high < GAIN and not nats.low > 0
        outcome, kind = (Outcome.WARN, "at_chance") if at_chance else (Outcome.PASS, "belong")
        return self.finding(when, outcome, kind, gain.value, **values)


def said_by_words(dataset: Dataset, task: Task) -> Said:
    """What words of a run's training rows say of other texts, learned once."""
    if FITTED not in dataset.notes:
        dataset.notes[FITTED] = task.target.bag_of_words(task, spread_rows(dataset, TEXTS))
    said: Said = dataset.notes[FITTED]
    return said


def spread_rows(dataset: Dataset, most: int) -> list[Example]:
    """At most so many training rows, evenly spread: files are often sorted by their labels."""
    step = math.ceil(max(1, dataset.labels.examples) / most)
    return list(islice(dataset.examples("train"), 0, None, step))


def mean(each: Floats) -> Estimate:
    """A mean over rows with its interval."""
    return Loss().interval(Examples({"nats": each, "targets": np.ones(len(each))}))
