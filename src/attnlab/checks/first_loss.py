"""The loss before anything is learned."""

from __future__ import annotations

import math
from typing import ClassVar

from attnlab.checks.check import Case, Check, Moment
from attnlab.checks.real import batch_of, device_of, piece, prepared_of
from attnlab.model.apart import undisturbed
from attnlab.runs.findings import Finding, When

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
            return self.not_applicable(case, "the model begins with learned weights")
        if case.task.target.compares_batch:
            return self.not_applicable(case, "texts that belong together share words, which any weights see")
        rows = ROWS if case.task.predicts_words else EXAMPLES
        prepared = prepared_of(case, piece(batch_of(case), rows))
        with undisturbed(case.model) as model:
            found = case.task.loss(model, prepared.to(device_of(model)))
        parts = max(len(found.parts), 1)  # each part is a loss of its own over the same targets
        loss, expected = float(found.mean) / parts, case.task.blind_loss(prepared)
        return self.judge(case, loss, expected, prepared.count)

    def judge(self, at: Moment, loss: float, expected: float, targets: int) -> Finding:
        """The loss of an untrained model against that of knowing nothing."""
        told = (
            f"the untrained model's loss is {loss:.2f}, expected before training {expected:.2f} "
            f"({targets:,} targets)"
        )
        gap, tolerance = loss - expected, max(0.5, expected / 10)
        if not math.isfinite(loss) or gap > tolerance:
            return self.warned(
                at,
                told,
                loss,
                meaning="The first scores are too large: the untrained model is confident before it has "
                "learned anything.",
                fix="Look at the initial scale of the embeddings and of the head (model.embedding_scale, "
                "the head's scale).",
            )
        if gap < -tolerance:
            return self.failed(
                at,
                told,
                loss,
                meaning="An untrained model cannot do so well: the target is visible in its input.",
                fix="Look for targets among the inputs: labels that are not shifted, or a mask that leaks.",
            )
        return self.passed(at, told, loss)
