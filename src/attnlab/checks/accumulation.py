"""One batch, and the same batch in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check
from attnlab.checks.real import batch_of, piece, prepared_of, rows_of
from attnlab.model.isolation import sample_of
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.task import Prepared, Task
from attnlab.training.loop import backward

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
    same_for_seeds: ClassVar[bool] = True
    samples_layers: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.task.target.compares_batch:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "contrasts")
        whole = prepared_of(case, piece(batch_of(case, least=LENGTH), ROWS, LENGTH))
        if len(whole.ids) < 2:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "one_row")
        model = sample_of(case.model).double().eval()
        parts = [rows_of(whole, 0, 1), rows_of(whole, 1, len(whole.ids))]
        together = gradient(model, case.task, [whole])
        apart = gradient(model, case.task, parts)
        largest = max(float(g.abs().max()) for g in together)
        gap = max(float((a - b).abs().max()) for a, b in zip(together, apart, strict=True))
        gap /= max(largest, 1e-30)
        targets = [part.count for part in parts]
        if not gap <= EQUAL:
            return self.finding(case.when, Outcome.FAIL, "differ", gap, targets=targets)
        return self.finding(case.when, Outcome.PASS, "agree", gap, targets=targets)

    def judge(self, when: When, weights: Sequence[float], targets: Sequence[int]) -> Finding:
        """How much a target of each batch of one step weighs in its gradient; that is to be the same."""
        if len(weights) < 2:
            return self.finding(when, Outcome.NOT_APPLICABLE, "one_batch")
        least, most = (weights.index(bound(weights)) for bound in (min, max))
        gap = 1 - weights[least] / weights[most]
        values: dict[str, Value] = {
            "batches": len(weights),
            "most": targets[most],
            "least": targets[least],
            "ratio": weights[most] / weights[least],
            "targets": sum(targets),
        }
        if gap > ROUNDED:
            return self.finding(when, Outcome.FAIL, "weigh_unequally", gap, **values)
        return self.finding(when, Outcome.PASS, "weigh_equally", gap, **values)


def gradient(model: Model, task: Task, batches: Sequence[Prepared]) -> list[Tensor]:
    """The gradient of one step over these batches, as the loop takes it."""
    model.zero_grad()
    with torch.random.fork_rng(), torch.enable_grad():
        backward(model, task, batches)
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return gradients
