"""One batch, and the same batch in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check, Moment
from attnlab.checks.real import batch_of, piece, prepared_of, rows_of
from attnlab.model.apart import sample_of
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, When
from attnlab.tasks.task import Prepared, Task
from attnlab.training.accumulate import backward

ROWS, LENGTH = 4, 16
EQUAL, ROUNDED = 1e-9, 0.02
"""In float64; and of weights that were measured in a training as it is, in any precision."""


class Accumulation(Check):
    """Accumulation: do a batch and its parts of different sizes give the same gradient?

    Formula: ∇ Σ loss / Σ targets over a batch of four rows, compared with the same over its first row and
    its other three, through the task's own sums and counts and the loop's own backward, in a
    float64 copy; they agree to 1e-9 of the largest.

    When it helps: a mean of means weighs a short text as much as a long one. The loss looks right,
    and another function is minimised.

    Cannot see: accumulation over devices, and parts whose loss is right while their gradient is scaled
    again by an optimizer.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5
    samples_layers: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.task.target.compares_batch:
            return self.not_applicable(case, "each example is compared with the others of its batch")
        whole = prepared_of(case, piece(batch_of(case, least=LENGTH), ROWS, LENGTH))
        if len(whole.ids) < 2:
            return self.not_applicable(case, "a batch has one row, which cannot be split")
        model = sample_of(case.model).double().eval()
        parts = [rows_of(whole, 0, 1), rows_of(whole, 1, len(whole.ids))]
        together = gradient(model, case.task, [whole])
        apart = gradient(model, case.task, parts)
        largest = max(float(g.abs().max()) for g in together)
        gap = max(float((a - b).abs().max()) for a, b in zip(together, apart, strict=True))
        gap /= max(largest, 1e-30)
        counts = f"{parts[0].count} and {parts[1].count} targets"
        if not gap <= EQUAL:
            return self.uneven(
                case, f"in parts of {counts} the gradient differs by {gap:.2g} of the largest", gap
            )
        return self.passed(case, f"parts of {counts} give the gradient of the whole, to {gap:.1g}", gap)

    def uneven(self, at: Moment, told: str, gap: float) -> Finding:
        return self.failed(
            at,
            told,
            gap,
            meaning="Gradients depend on how a step is split into batches: short ones count too much.",
            fix="Sum the losses and divide by all targets of the step; never average means.",
        )

    def judge(self, at: Moment, weights: Sequence[float], targets: Sequence[int]) -> Finding:
        """How much a target of each batch of one step weighs in its gradient; that is to be the same."""
        if len(weights) < 2:
            return self.not_applicable(at, "a step is one batch, which is not parted")
        least, most = (weights.index(bound(weights)) for bound in (min, max))
        gap = 1 - weights[least] / weights[most]
        told = (
            f"of the {len(weights)} batches of a step, a target of one with {targets[most]:,} weighs "
            f"{weights[most] / weights[least]:.3g} times one of a batch with {targets[least]:,}"
        )
        if gap > ROUNDED:
            return self.uneven(at, told, gap)
        return self.passed(at, f"{told} ({sum(targets):,} targets)", gap)


def gradient(model: Model, task: Task, batches: Sequence[Prepared]) -> list[Tensor]:
    """The gradient of one step over these batches, as the loop takes it."""
    model.zero_grad()
    with torch.random.fork_rng(), torch.enable_grad():
        backward(model, task, batches)
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return found
