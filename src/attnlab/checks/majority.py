"""Accuracy beside that of the most frequent label."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from attnlab.checks import predictions
from attnlab.checks.check import Case, Check
from attnlab.runs.findings import Finding, When


class Majority(Check):
    """Majority: does a classifier do better than one that always says the most frequent label?

    Formula: accuracy with Wilson's 95 % interval over n examples; the share of the most frequent
    label must lie below it. Told apart from having learnt nothing: predictions in other names than
    the labels; a one-to-one renaming of labels with which at least 5 points more are right, where
    luck has less than 0.001 (0.01 for each label that it moves); and fewer right than predictions in
    random order would be.

    When it helps: 62 % sounds like something, and is nothing where 62 % of the labels are "yes". And
    8 % of two classes is not nothing: the labels were swapped.

    Cannot see: labels that were swapped in some rows only; classes that were merged.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        if case.predictions is None:
            return self.not_applicable(case, "the model does not classify")
        found = predictions.majority(case.predictions)
        if found is None:
            return self.not_applicable(case, predictions.ONE_LABEL["found"])
        return replace(found, when=case.when)
