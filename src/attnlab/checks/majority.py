"""Accuracy beside that of the most frequent label."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check, so_far
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.targets.predictions import majority


class Majority(Check):
    """Majority: is a model better than always predicting the most frequent label, the mean, or no answer?

    Formula: accuracy with Wilson's 95% interval over n examples; the share of the most frequent label must
    lie below it. Told apart from having learned nothing: predictions in other names than the labels; a
    one-to-one renaming of labels with which at least 5 points more are right, where luck has less than
    0.001 (0.01 for each label that it moves); and fewer right than predictions in random order would be. Of
    several labels the whole set counts as one. Of numbers, the 95% interval of R² must lie above 0, which
    is that of the mean. Of answers, the span F1 must be above that of never answering, by the 95% interval
    of the difference over questions. Of tags, the accuracy over words must be above the share of the most
    frequent one. During training this is a warning; at the end it is a failure.

    When it helps: 62% sounds like something, and is nothing where 62% of the labels are "yes". And
    8% of two classes is not nothing: the labels were swapped.

    Cannot see: labels that were swapped in some rows only; classes that were merged.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.1
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.predictions is not None:
            return so_far(majority(case.predictions), case)
        if case.examples is not None:
            return so_far(case.task.target.majority(case.examples, case.task.labels), case)
        return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_classes")
