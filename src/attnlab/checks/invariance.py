"""Padding and company: does a text's score depend on what else is in the batch?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.subject import ModelCheck, Side, Subject
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

LENGTHS = (4, 7, 11)
ARRANGEMENTS: dict[str, tuple[Side, int]] = {
    "padded on the right": ("right", 1),
    "padded on the left": ("left", 1),
    "in another order": ("right", -1),
}
"""Where padding stands, and in which order the texts are."""


class Invariance(ModelCheck):
    """Invariance: padding side, batch size and the other rows change neither scores nor gradients.

    Formula: three texts of different lengths are scored one by one, together padded on the right,
    together padded on the left, and in reverse order with others; scores of real tokens and the
    gradient of every parameter must agree, in a float64 copy, to 1e-9 of the largest.

    When it helps: a pad key that stays in a sum (linear attention's denominator), a position that
    counts padding, or statistics over the batch make results depend on the batch they were in.

    Cannot see: a dependence on more than three texts or on lengths above eleven tokens, and anything that
    shows in float32 alone.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.0
    same_for_seeds: ClassVar[bool] = True

    def answer(self, subject: Subject) -> Finding:
        rows = subject.random_rows([min(length, subject.room) for length in LENGTHS])
        alone = {side: Scored(subject, [[row] for row in rows], side) for side in subject.padding_sides}
        gaps = {}
        for name, (side, order) in ARRANGEMENTS.items():
            if side in alone:
                together = Scored(subject, [rows[::order]], side)
                together.scores = together.scores[::order]
                gaps[name] = together.gap(alone[side])
        if not gaps:
            return self.finding(subject.when, Outcome.NOT_APPLICABLE, "no_padding")
        name, size = max(gaps.items(), key=lambda item: item[1])
        if size > subject.equal:
            return self.finding(subject.when, Outcome.FAIL, "differ", size, arrangement=name)
        counts: dict[str, Value] = {"texts": len(rows), "arrangements": len(gaps)}
        return self.finding(subject.when, Outcome.PASS, "agree", size, **counts)


class Scored:
    """Batches of rows: each row's scores, and every parameter's gradient of a weighted sum of all of them."""

    def __init__(self, subject: Subject, batches: Sequence[Sequence[Tensor]], side: Side):
        subject.model.zero_grad()
        self.scores: list[Tensor] = []
        with torch.set_grad_enabled(subject.compares_gradients):
            for rows in batches:
                scores, total = subject.scores_of_rows(rows, side)
                self.scores += scores
                if subject.compares_gradients:
                    total.backward()
        gradients = ((name, parameter.grad) for name, parameter in subject.model.named_parameters())
        self.gradient = {name: gradient for name, gradient in gradients if gradient is not None}

    @cached_property
    def largest_gradient(self) -> float:
        return max((float(gradient.abs().max()) for gradient in self.gradient.values()), default=0.0)

    def gap(self, alone: Scored) -> float:
        """The largest difference in scores, of the largest score, or in gradients, of the largest one."""
        pairs = zip(self.scores, alone.scores, strict=True)
        gaps = [distance(own, other, float(other.abs().max())) for own, other in pairs]
        largest = alone.largest_gradient  # some are zero but for rounding
        gaps += [distance(self.gradient[name], other, largest) for name, other in alone.gradient.items()]
        return max(gaps)


def distance(own: Tensor, other: Tensor, scale: float) -> float:
    """The largest difference, relative to a scale; what is no number is infinitely far."""
    return float((own - other).abs().max().nan_to_num(torch.inf)) / max(scale, 1e-30)
