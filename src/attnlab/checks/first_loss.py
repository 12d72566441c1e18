"""The loss before anything is learned."""

from __future__ import annotations

import math
from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.checks.real import batch_of, device_of, piece, prepared_of
from attnlab.model.isolation import undisturbed
from attnlab.runs.findings import Finding, Outcome, When

ROWS = 8
EXAMPLES = 64
"""Rows that are looked at where each is one target."""


class FirstLoss(Check):
    """First loss: is the untrained model's loss that of uniform guessing?

    Formula: |loss − b| ≤ max(½, b / 10) on a real batch, where b is what a model without knowledge
    loses: ln V for V tokens or classes, which it gives the same probability; ln 2 for each label of
    several; the variance of numbers.

    When it helps: a loss far below b means that the answer is in sight before anything is learned
    (a leak, targets among the inputs). One far above means that the first scores are too large, and
    that the first steps go into making them smaller.

    Cannot see: an answer that is in sight but that random weights do not use (see `visible_targets`), and
    a start that is poor but not out of scale.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        if case.pretrained:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "learned_weights")
        if case.task.target.compares_batch:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "pair")
        rows = ROWS if case.task.predicts_words else EXAMPLES
        prepared = prepared_of(case, piece(batch_of(case), rows))
        with undisturbed(case.model) as model:
            losses = case.task.loss(model, prepared.to(device_of(model)))
        parts = max(len(losses.parts), 1)  # each part is a loss of its own over the same targets
        loss, expected = float(losses.mean) / parts, case.task.blind_loss(prepared)
        return self.judge(case.when, loss, expected, prepared.count)

    def judge(self, when: When, loss: float, expected: float, targets: int) -> Finding:
        """The loss of an untrained model against that of knowing nothing."""
        values = {"expected": expected, "targets": targets}
        gap, tolerance = loss - expected, max(0.5, expected / 10)
        if not math.isfinite(loss) or gap > tolerance:
            return self.finding(when, Outcome.WARN, "too_high", loss, **values)
        if gap < -tolerance:
            return self.finding(when, Outcome.FAIL, "too_low", loss, **values)
        return self.finding(when, Outcome.PASS, "expected", loss, **values)
