"""A loss that is not a number: stop, keep what shows why, and say where it began."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from attnlab.model.tokens import Tokens
from attnlab.objectives.objective import Prepared
from attnlab.training.checkpoint import Checkpoint, Checkpoints
from attnlab.training.errors import RunError
from attnlab.training.files import replace_bytes


def raise_for_non_finite(model: nn.Module, step: int, loss: float, gradient: float) -> None:
    """An ArithmeticError that names the step and the first parameter that is not finite."""
    if math.isfinite(loss) and math.isfinite(gradient):
        return
    value = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {gradient}"
    named = dict(model.named_parameters())
    for what, tensors in (
        ("weight", {name: p.detach() for name, p in named.items()}),
        ("gradient", {name: p.grad for name, p in named.items() if p.grad is not None}),
    ):
        for name, tensor in tensors.items():
            if not bool(torch.isfinite(tensor).all()):
                raise ArithmeticError(f"Step {step}: {value}. The first {what} that is not finite: {name}.")
    raise ArithmeticError(f"Step {step}: {value}, with every weight and gradient finite.")


class Failure:
    """Where the evidence of a failed step goes."""

    def __init__(self, folder: Path, checkpoints: Checkpoints):
        self.folder, self.checkpoints = folder, checkpoints

    def kept(self, error: ArithmeticError, batches: list[Prepared], last: Checkpoint) -> RunError:
        """Save the batch and the last good state; gives the error to raise."""
        step = int(last.state["step"])
        batch = self.folder / f"failed-step-{step + 1}.safetensors"
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_bytes(batch, save(tensors_of(batches)))
        sound = all(bool(torch.isfinite(tensor).all()) for tensor in last.model.values())
        if sound:
            self.checkpoints.save(step, last)
        steps = self.checkpoints.steps()
        state = (
            f"the last good state is the checkpoint of step {steps[-1]}" if steps else "no state was saved"
        )
        return RunError(
            f"{error} The batch is in {batch.name}, and {state}. A lower training.optimizer.rate, a longer "
            "training.schedule.warmup or a smaller training.clip is the usual cure."
        )


def tensors_of(batches: list[Prepared]) -> dict[str, Tensor]:
    """Every tensor of the batches by name, for the file that shows what went in."""
    found = {}
    for number, batch in enumerate(batches):
        for name, value in vars(batch).items():
            if isinstance(value, Tensor):
                found[f"{number}.{name}"] = value.contiguous()
            elif isinstance(value, Tokens):
                marks = {k: v for k, v in vars(value).items() if isinstance(v, Tensor)}
                found |= {f"{number}.{name}.{k}": v.clone().contiguous() for k, v in marks.items()}
    return found
