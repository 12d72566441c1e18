"""One step on the weights: groups of parameters with their rates, and what is remembered of each.

Not torch.optim's classes: their constructor and step import torch's compiler, which takes as long as
importing torch itself, at the start of every run. The arithmetic is torch's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate and a weight decay."""

    parameters: list[nn.Parameter]
    learning_rate: float
    weight_decay: float = 0.0


class Update(ABC):
    """A step on groups of parameters. `state` holds named tensors of each parameter that has been moved."""

    kept: ClassVar[tuple[str, ...]]
    """What is remembered of a parameter, in its own shape."""

    def __init__(self, groups: Iterable[ParameterGroup]):
        self.groups = [group for group in groups if group.parameters]
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self, factor: float = 1.0) -> None:
        """One step at this share of each group's learning rate, on the parameters that have a gradient."""
        for group in self.groups:
            moving = [p for p in group.parameters if p.grad is not None]
            for p in moving:
                if p not in self.state:
                    self.state[p] = self.begin(p)
            if moving:
                self.move(moving, group.learning_rate * factor, group.weight_decay)

    def begin(self, parameter: Tensor) -> dict[str, Tensor]:
        """What is known of a parameter before its first step."""
        return {name: torch.zeros_like(parameter) for name in self.kept}

    @abstractmethod
    def move(self, parameters: list[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        """Change parameters that have a gradient, in place."""

    def zero_grad(self) -> None:
        for group in self.groups:
            for p in group.parameters:
                p.grad = None


class AdamWUpdate(Update):
    """AdamW by torch's fused kernel."""

    kept = ("exp_avg", "exp_avg_sq")

    def __init__(self, groups: Iterable[ParameterGroup], *, betas: tuple[float, float], eps: float = 1e-8):
        super().__init__(groups)
        self.betas, self.eps = betas, eps

    def begin(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"step": torch.zeros((), device=parameter.device), **super().begin(parameter)}

    def move(self, parameters: list[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        held = [self.state[p] for p in parameters]
        adamw(
            list(parameters),
            [p.grad for p in parameters if p.grad is not None],
            [one["exp_avg"] for one in held],
            [one["exp_avg_sq"] for one in held],
            [],
            [one["step"] for one in held],
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=learning_rate,
            weight_decay=weight_decay,
            eps=self.eps,
            maximize=False,
        )
