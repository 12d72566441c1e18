"""The loss before anything is learned."""

from __future__ import annotations

import math
from typing import ClassVar

from torch import Tensor

from attnlab.checks.check import Case, Check
from attnlab.checks.real import batch_of, device_of, piece, prepared_of
from attnlab.model.heads.head import Head
from attnlab.model.isolation import undisturbed
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.tasks.task import Prepared

ROWS = 8
EXAMPLES = 64
"""Rows that are looked at where each is one target."""
ONE_DRAW = 10
"""How many tolerances an answer's loss may be too high: most rows point at the same place."""
LARGE = 4.0
"""The size of first scores from which on they are too large: a usual start gives about 1."""
EXCHANGES = 7
"""How often labels are moved on to another row."""


class FirstLoss(Check):
    """First loss: is the untrained model's loss that of uniform guessing?

    Formula: |loss − b| ≤ t = max(½, b / 10) on a real batch, where b is what a model without knowledge
    loses: ln V for V tokens or classes, which it gives the same probability; ln 2 for each label of
    several; the variance of numbers. Where a whole text has one label, an untrained model scores all texts
    nearly alike, and one draw of a few scores decides the loss: it is too high only if their root mean square
    is above 4, and too low only if it is also t below the loss of the same scores with the labels of other
    rows. That of an answer, where most rows point at the same place, is within b / 2 and b + 10t.

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
        if not prepared.of_examples or prepared.words is not None:
            return self.judge(case.when, loss, expected, prepared.count)
        lucky, most = expected / 2, expected + ONE_DRAW * max(0.5, expected / 10)
        if one_label(prepared):
            scores = scores_of(case, prepared)
            lucky = exchanged_loss(case, scores, prepared)
            most = math.inf if size_of(scores) <= LARGE else expected
        return self.judge(case.when, loss, expected, prepared.count, lucky=lucky, most=most)

    def judge(
        self,
        when: When,
        loss: float,
        expected: float,
        targets: int,
        *,
        lucky: float | None = None,
        most: float | None = None,
    ) -> Finding:
        """The loss of an untrained model against that of knowing nothing. Where a whole text is one target,
        `lucky` is a loss that it may have by luck, and `most` the highest that it may have."""
        values = {"expected": expected, "targets": targets}
        tolerance = max(0.5, expected / 10)
        if not math.isfinite(loss) or loss > (expected if most is None else most) + tolerance:
            return self.finding(when, Outcome.WARN, "too_high", loss, **values)
        if loss < min(expected, expected if lucky is None else lucky) - tolerance:
            return self.finding(when, Outcome.FAIL, "too_low", loss, **values)
        return self.finding(when, Outcome.PASS, "expected", loss, **values)


def one_label(prepared: Prepared) -> bool:
    """Whether each row is one text with one target, and not its words or a place in it."""
    parts = prepared.words, prepared.passage, prepared.second
    return prepared.of_examples and all(part is None for part in parts)


def scores_of(case: Case, prepared: Prepared) -> Tensor:
    """What the head gives for each row."""

    def scored(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> Tensor:
        return case.task.scores(head, hidden, prepared)

    with undisturbed(case.model) as model:
        scores: Tensor = model(**prepared.to(device_of(model)).inputs, objective=scored)
    return scores.double().cpu()


def size_of(scores: Tensor) -> float:
    """The root mean square of scores, about their mean where there are several for a row."""
    centred = scores - scores.mean(-1, keepdim=True) if scores.ndim > 1 and scores.shape[-1] > 1 else scores
    return float(centred.square().mean().sqrt())


def exchanged_loss(case: Case, scores: Tensor, prepared: Prepared) -> float:
    """The mean loss of scores with the labels of other rows."""
    losses = []
    for by in range(1, min(EXCHANGES + 1, len(scores))):
        rows = zip(scores, prepared.targets.roll(by, 0), strict=True)
        losses += [float(case.task.target.plain_loss(own, {"targets": other})) for own, other in rows]
    return sum(losses) / len(losses) if losses else math.inf
