"""Which classes are predicted at all."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check, so_far
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.targets.predictions import collapse


class Collapse(Check):
    """Collapse: does a classifier predict more than one class?

    Formula: the distribution of predictions; one class alone fails. A warning names two where the labels
    have more that are each at least 2% of all, and classes that are never predicted, though they
    have 10 examples and half the share of equally frequent ones. Of texts with several labels each,
    classes are counted one by one (one that half of the texts have is to be predicted), and the same set for
    every text fails. Of questions with and without an
    answer: never answering, or always, fails. Of tags: a model that finds no entity fails.

    When it helps: a model that collapsed to one class has that class's share as its accuracy, in
    every run and to every digit.

    Cannot see: a class that is predicted once, or at random.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.1
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.predictions is not None:
            return so_far(collapse(case.predictions), case)
        if case.examples is not None:
            return so_far(case.task.target.collapse(case.examples, case.task.labels), case)
        return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_classes")
