"""Rows that a classifier is judged on."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check, so_far
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.targets.predictions import repeated


class Examples(Check):
    """Examples: is every row another text, with one label and one prediction?

    Formula: texts are compared without case and spaces. The same text with two predictions fails; 1%
    of rows whose text has two labels, or that repeat a text, are a warning.

    When it helps: on a text with two labels no model can be right twice; repeated rows make intervals
    too narrow; two predictions for one text mean dropout, or a batch that matters.

    Cannot see: texts that say the same in other words; labels that are wrong and consistent.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.5
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.predictions is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_classes")
        if not case.predictions.texts:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_texts")
        return so_far(repeated(case.predictions), case)
