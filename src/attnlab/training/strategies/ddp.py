"""Every process has the whole model."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from attnlab.model.model import Model
from attnlab.runs.checkpoints import Checkpoints
from attnlab.training.checkpoint import Checkpoint
from attnlab.training.optimizers import Optimizers
from attnlab.training.strategies.strategy import Strategy


class WithUnused(nn.Module):
    """A model with one number that is never used: torch warns, in every process, where it finds none."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model, self.unused = model, nn.Parameter(torch.zeros(1, device=next(model.parameters()).device))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.model(*inputs, **named)


class DDP(Strategy):
    """DDP: every process has the whole model, takes its parts of a step, and gradients are averaged.

    Formula: the gradient is the sum over all parts of all processes, divided by the number of all targets.

    Cost: weights, gradients and the optimizer's state in every process; each step sends about twice the
    size of the gradient, while the last part's backward still runs.

    When it helps: the model fits on one device, and steps of several batches take too long.

    Paper: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
    """

    def wrap(self, model: Model, wrapped: nn.Module, optimizer: Optimizers) -> tuple[nn.Module, Optimizers]:
        # Unused parameters are looked for: of a head that a task asks in part, some have no gradient. Without
        # it torch also lays gradients out anew after the first step, and sums over three or more processes
        # would end in other bits after a resume.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of the name of an argument
            return DistributedDataParallel(
                WithUnused(wrapped), find_unused_parameters=True, broadcast_buffers=False
            ), optimizer

    def exchanging(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        assert isinstance(wrapped, DistributedDataParallel)
        return nullcontext() if last else wrapped.no_sync()

    def save(self, checkpoints: Checkpoints, step: int, checkpoint: Checkpoint) -> Path:
        if not self.processes.first:
            return checkpoints.path(step)
        return super().save(checkpoints, step, checkpoint)
