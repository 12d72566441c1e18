"""A loss that is not a number: stop, keep what shows why, and say where it began."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from attnlab.data.sharing import UNSHARED, Sharing
from attnlab.model.tokens import Tokens
from attnlab.runs.atomic import replace_bytes
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.faults import RunError
from attnlab.tasks.task import Prepared
from attnlab.training.checkpoint import Checkpoint
from attnlab.training.trace import local_part

CURE = (
    "A lower training.optimizer.learning_rate, a longer training.schedule.warmup or a smaller training.clip "
    "is the usual cure."
)


def gradient_norm(model: nn.Module) -> Tensor:
    """The norm of all gradients together."""
    return nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])


def not_finite(tensors: Mapping[str, Tensor], sharing: Sharing = UNSHARED) -> str:
    """The first of these that is not finite, and how many more there are; nothing when all are sound. Of
    tensors in parts, in any process."""
    own = {name for name, tensor in tensors.items() if not bool(torch.isfinite(local_part(tensor)).all())}
    every = set[str]().union(*sharing.gather(own))
    broken = [name for name in tensors if name in every]
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{broken[0]}{more}" if broken else ""


def fault_of(model: nn.Module, loss: float, norm: Tensor, sharing: Sharing = UNSHARED) -> str:
    """What is wrong with a step, naming the parameter where it shows; nothing when it is sound."""
    if math.isfinite(loss) and bool(torch.isfinite(norm)):
        return ""
    value = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {float(norm)}"
    named = dict(model.named_parameters())
    weights = not_finite({name: p.detach() for name, p in named.items()}, sharing)
    if weights:
        return f"{value}. The first weight that is not finite: {weights}."
    gradients = not_finite({name: p.grad for name, p in named.items() if p.grad is not None}, sharing)
    if gradients:
        return f"{value}. The first gradient that is not finite: {gradients}."
    return f"{value}, with every weight and gradient finite."


class DivergedError(RunError):
    """The loss, the gradient or the weights are no longer finite."""


class Failure:
    """Where the evidence of a failed step goes."""

    def __init__(self, folder: Path, checkpoints: Checkpoints):
        self.folder, self.checkpoints = folder, checkpoints

    def kept(self, step: int, fault: str, batches: list[Prepared]) -> DivergedError:
        """Save the batch; gives the error to raise."""
        file = self.folder / f"failed-step-{step}.safetensors"
        replace_bytes(file, save(tensors_of(batches)))
        message = f"Step {step}: {fault} The batch is in {file.name}, and {self._last_good()}. {CURE}"
        return DivergedError(message)

    def refuse_broken(self, snapshot: Checkpoint, sharing: Sharing = UNSHARED) -> None:
        """Weights that are not finite are never saved as if they were good."""
        weights = not_finite(snapshot.model, sharing)
        if weights:
            step = snapshot.state["step"]
            raise DivergedError(
                f"Step {step}: the update made weights that are not finite: {weights}. They were not saved; "
                f"{self._last_good()}. {CURE}"
            )

    def _last_good(self) -> str:
        steps = self.checkpoints.steps()
        return f"the last good state is the checkpoint of step {steps[-1]}" if steps else "no state was saved"


def tensors_of(batches: list[Prepared]) -> dict[str, Tensor]:
    """Every tensor of the batches by name, for the file that shows what went in."""
    tensors = {}
    for number, batch in enumerate(batches):
        for name, value in vars(batch).items():
            if isinstance(value, Tensor):
                tensors[f"{number}.{name}"] = value.contiguous()
            elif isinstance(value, Tokens):
                marks = {k: v for k, v in vars(value).items() if isinstance(v, Tensor)}
                tensors |= {f"{number}.{name}.{k}": v.clone().contiguous() for k, v in marks.items()}
    return tensors
