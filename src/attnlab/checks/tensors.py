"""Every tensor of a checkpoint, accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch

from attnlab.checks.check import Case, Check, Moment
from attnlab.config.wording import first_few
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.findings import Finding, When
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
        found = saved(case.folder, case.step)
        if found is None:
            return self.not_applicable(case, "there is no checkpoint of this step")
        if isinstance(found, str):
            return self.lost(case, f"the checkpoint of step {case.step} is damaged: {found}")
        own = {name: parameter.detach().cpu() for name, parameter in case.model.named_parameters()}
        problems = list(misfits(found, own))
        if problems:
            return self.lost(case, "; ".join(problems))
        numbers = sum(tensor.numel() for tensor in own.values())
        return self.passed(case, f"{len(own)} tensors of {numbers:,} numbers, all there, none left over", 0.0)

    def lost(self, at: Moment, told: str) -> Finding:
        return self.failed(
            at,
            told,
            meaning="The model that is loaded from this checkpoint is not the one that was trained.",
            fix="Save and load by named_parameters(), and refuse what does not fit.",
        )


def saved(folder: Path | None, step: int) -> Checkpoint | str | None:
    """The checkpoint of a step; what is wrong with it, or None where there is none."""
    checkpoints = Checkpoints.of(folder) if folder is not None else None
    if checkpoints is None or step not in checkpoints.steps():
        return None
    try:
        return read_checkpoint(checkpoints, step)
    except DamagedError as damage:
        return str(damage)


def misfits(checkpoint: Checkpoint, own: dict[str, torch.Tensor]) -> list[str]:
    """What is in one and not in the other."""
    held = checkpoint.model
    both = own.keys() & held.keys()
    shapes = {name for name in both if own[name].shape != held[name].shape}
    values = {name for name in both - shapes if not torch.equal(own[name], held[name])}
    broken = {name for name in held if not bool(torch.isfinite(held[name]).all())}
    stray = {key for key in checkpoint.optimizer if key.rsplit("/", 1)[0] not in own}
    named = {
        "missing": own.keys() - held.keys(),
        "left over": held.keys() - own.keys(),
        "of another shape": shapes,
        "of other values": values,
        "not finite": broken,
        "in the optimizer's state alone": stray,
    }
    return [f"{what}: {first_few(sorted(names))}" for what, names in named.items() if names]
