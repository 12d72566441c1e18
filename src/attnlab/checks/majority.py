"""Accuracy beside that of the most frequent label."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from attnlab.checks import predictions
from attnlab.checks.answered import never_answering
from attnlab.checks.check import Case, Check, Moment
from attnlab.checks.tagged import most_frequent_tag
from attnlab.metrics.metric import Examples
from attnlab.metrics.numbers import ExplainedVariance
from attnlab.runs.findings import Finding, Outcome, When


class Majority(Check):
    """Majority: is a model better than always predicting the most frequent label, the mean, or no answer?

    Formula: accuracy with Wilson's 95 % interval over n examples; the share of the most frequent label must
    lie below it. Told apart from having learned nothing: predictions in other names than the labels; a
    one-to-one renaming of labels with which at least 5 points more are right, where luck has less than
    0.001 (0.01 for each label that it moves); and fewer right than predictions in random order would be. Of
    several labels the whole set counts as one. Of numbers, the 95 % interval of R² must lie above 0, which
    is that of the mean. Of answers, the span F1 must be above that of never answering, by the 95 % interval
    of the difference over questions. Of tags, the accuracy over words must be above the share of the most
    frequent one. During training this is a warning; at the end it is a failure.

    When it helps: 62 % sounds like something, and is nothing where 62 % of the labels are "yes". And
    8 % of two classes is not nothing: the labels were swapped.

    Cannot see: labels that were swapped in some rows only; classes that were merged.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        if case.task.target.name == "number" and case.examples is not None:
            return predictions.so_far(self.of_numbers(case, case.examples), case)
        if case.task.target.name == "answer" and case.examples is not None:
            return self.of_answers(case, case.examples)
        if case.task.target.name == "tags" and case.examples is not None:
            of_words = most_frequent_tag(case.examples)
            if of_words is None:
                return self.finding(case, Outcome.NOT_APPLICABLE, "one_label")
            return predictions.so_far(of_words, case)
        if case.predictions is None:
            return self.finding(case, Outcome.NOT_APPLICABLE, "no_classes")
        found = predictions.majority(case.predictions)
        if found is None:
            return self.finding(case, Outcome.NOT_APPLICABLE, "one_label")
        return predictions.so_far(found, case)

    def of_answers(self, case: Case, examples: Examples) -> Finding:
        """Beside never answering."""
        found = never_answering(examples) if "answerable" in examples else None
        if found is None:
            return self.finding(case, Outcome.NOT_APPLICABLE, "no_answers")
        return predictions.so_far(found, case)

    def of_numbers(self, at: Moment, examples: Examples) -> Finding:
        """Beside always saying the mean, whose R² is 0."""
        if len(examples) < 2 or not np.ptp(examples["number"]):
            return self.finding(at, Outcome.NOT_APPLICABLE, "one_number")
        found = ExplainedVariance().interval(examples)
        values = {"low": found.low, "high": found.high, "n": found.n}
        if found.low > 0:
            return self.finding(at, Outcome.PASS, "better_than_mean", found.value, **values)
        kind = "worse_than_mean" if found.high < 0 else "not_better_than_mean"
        return self.finding(at, Outcome.FAIL, kind, found.value, **values)
