"""Steps of a training, done a second time."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.runs.findings import Finding, Outcome, When


class ReplayedStep(Check):
    """Replayed step: is a step of the optimizer the one that the config asks for?

    Formula: the first step, the first after every resume and one at three quarters of the budget are done a
    second time: the gradient of Σ loss / Σ targets from zero, clipped by its norm; torch's plain AdamW in
    float64 (of other optimizers their class, built afresh) with decay where a parameter is a matrix that is
    not looked up; the learning rate by the schedule's closed formula; after a resume from what the
    checkpoint's files hold. 99% of each tensor's weights, and of what the optimizer remembers, agree to
    rounding, or the tensor to 3e-5 of the update, or to 32 times what the gradient changes when the loss is
    in another unit, which rounds every number otherwise. A step that leaves every watched weight as it was,
    though the one before moved them, was skipped.

    When it helps: gradients that were not cleared, decay of norms and biases or where the config has none,
    a schedule or moments that begin anew at a resume, clipping that is left out, a wrong divisor: the loss
    falls all the same, and another experiment is made.

    Cannot see: faults of the steps between, a difference below the rounding of the weights (in a warm-up),
    tensors that are left out of models of more than 10 million parameters, or whose gradient is a sum of
    rounding errors (a key's bias), and what the gradient itself has
    wrong (see `targets`, `recomputed_loss`, `accumulation`).
    """

    when: ClassVar[tuple[When, ...]] = ("during",)
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        replays = case.replays
        if replays is None or not (replays.steps or replays.fault):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_step")
        if replays.fault is not None:
            fault = replays.fault
            values = {"step": fault.step, **fault.values}
            return self.finding(case.when, Outcome.FAIL, fault.kind, fault.gap, **values)
        return self.finding(
            case.when, Outcome.PASS, "agree", replays.gap, steps=list(replays.steps), tensors=replays.tensors
        )
