"""Every tensor of a checkpoint, accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch

from attnlab.checks.check import Case, Check
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.training.checkpoint import Checkpoint, read_checkpoint


class Tensors(Check):
    """Tensors: is every weight in the checkpoint, with its shape and value, and nothing else?

    Formula: names and shapes of model.safetensors against the model's parameters; of the step that
    the model is at, values bit by bit; of the optimizer's state, that each belongs to a parameter.

    When it helps: weights that were not saved or not loaded are random after loading, with a report
    that says that all went well.

    Cannot see: checkpoints of other steps than the last, and values that were wrong already in memory.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        checkpoint = saved(case.folder, case.step)
        if checkpoint is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_checkpoint")
        if isinstance(checkpoint, str):
            return self.finding(case.when, Outcome.FAIL, "damaged", step=case.step, error=checkpoint)
        own = {name: parameter.detach().cpu() for name, parameter in case.model.named_parameters()}
        names = misfits(checkpoint, own)
        if names:
            return self.finding(case.when, Outcome.FAIL, "misfits", names=names)
        numbers = sum(tensor.numel() for tensor in own.values())
        return self.finding(case.when, Outcome.PASS, "whole", 0.0, tensors=len(own), numbers=numbers)


def saved(folder: Path | None, step: int) -> Checkpoint | str | None:
    """The checkpoint of a step; what is wrong with it, or None where there is none."""
    checkpoints = Checkpoints.of(folder) if folder is not None else None
    if checkpoints is None or step not in checkpoints.steps():
        return None
    try:
        return read_checkpoint(checkpoints, step)
    except DamagedError as damage:
        return str(damage)


def misfits(checkpoint: Checkpoint, own: dict[str, torch.Tensor]) -> dict[str, list[str]]:
    """The names of what is in one and not in the other, by what is wrong with them."""
    stored = checkpoint.model
    both = own.keys() & stored.keys()
    shapes = {name for name in both if own[name].shape != stored[name].shape}
    values = {name for name in both - shapes if not torch.equal(own[name], stored[name])}
    broken = {name for name in stored if not bool(torch.isfinite(stored[name]).all())}
    stray = {key for key in checkpoint.optimizer if key.rsplit("/", 1)[0] not in own}
    named = {
        "missing": own.keys() - stored.keys(),
        "left_over": stored.keys() - own.keys(),
        "shape": shapes,
        "values": values,
        "not_finite": broken,
        "optimizer": stray,
    }
    return {what: sorted(names) for what, names in named.items() if names}
