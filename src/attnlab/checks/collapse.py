"""Which classes are predicted at all."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks import predictions
from attnlab.checks.answered import one_way
from attnlab.checks.check import Case, Check
from attnlab.checks.tagged import no_entities
from attnlab.runs.findings import Finding, Outcome, When


class Collapse(Check):
    """Collapse: does a classifier predict more than one class?

    Formula: the distribution of predictions; one class alone fails. A warning names two where the labels
    have more that are each at least 2 % of all, and classes that are never predicted, though they
    have 10 examples and half the share of equally frequent ones. Of questions with and without an answer:
    never answering, or always, fails. Of tags: a model that finds no entity fails.

    When it helps: a model that collapsed to one class has that class's share as its accuracy, in
    every run and to every digit.

    Cannot see: a class that is predicted once, or at random.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        if case.task.target.name == "answer" and case.examples is not None:
            found = one_way(case.examples) if "answerable" in case.examples else None
            if found is None:
                return self.finding(case, Outcome.NOT_APPLICABLE, "all_answerable")
            return predictions.so_far(found, case)
        if case.task.target.name == "tags" and case.examples is not None:
            found = no_entities(case.examples)
            if found is None:
                return self.finding(case, Outcome.NOT_APPLICABLE, "nothing_to_find")
            return predictions.so_far(found, case)
        if case.predictions is None:
            return self.finding(case, Outcome.NOT_APPLICABLE, "no_classes")
        found = predictions.collapse(case.predictions)
        if found is None:
            return self.finding(case, Outcome.NOT_APPLICABLE, "one_label")
        return predictions.so_far(found, case)
