"""One step on the weights: groups of parameters with their rates, and what is remembered of each.

AdamW and Muon are not torch.optim's classes: their constructor and step import torch's compiler, which takes
as long as importing torch itself, at the start of every run. The arithmetic is torch's own. A person may
register any class of torch.optim: it becomes a TorchUpdate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from attnlab.config.wording import first_few
from attnlab.runs.faults import RunError


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate and a weight decay."""

    parameters: list[nn.Parameter]
    learning_rate: float
    weight_decay: float = 0.0


class Update(ABC):
    """A step on groups of parameters. `state` holds named tensors of each parameter that has been moved."""

    state: dict[Tensor, dict[str, Tensor]]

    def __init__(self, groups: Iterable[ParameterGroup]):
        self.groups = [group for group in groups if group.parameters]

    @abstractmethod
    def step(self, factor: float = 1.0) -> None:
        """One step at this share of each group's learning rate, on the parameters that have a gradient."""

    def placed(self, name: str, value: Tensor, parameter: Tensor) -> Tensor:
        """A restored tensor of this parameter, on the device where the step wants it."""
        return value.to(parameter.device)

    def zero_grad(self) -> None:
        for group in self.groups:
            for p in group.parameters:
                p.grad = None


class GroupwiseUpdate(Update):
    """An update that moves one group after the other."""

    kept: ClassVar[tuple[str, ...]]
    """What is remembered of a parameter, in its own shape."""

    def __init__(self, groups: Iterable[ParameterGroup]):
        super().__init__(groups)
        self.state = {}

    @torch.no_grad()
    def step(self, factor: float = 1.0) -> None:
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


class AdamWUpdate(GroupwiseUpdate):
    """AdamW by torch's fused kernel."""

    kept = ("exp_avg", "exp_avg_sq")

    def __init__(self, groups: Iterable[ParameterGroup], *, betas: tuple[float, float], eps: float = 1e-8):
        super().__init__(groups)
        self.betas, self.eps = betas, eps

    def begin(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"step": torch.zeros((), device=parameter.device), **super().begin(parameter)}

    def move(self, parameters: list[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        states = [self.state[p] for p in parameters]
        adamw(
            list(parameters),
            [p.grad for p in parameters if p.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=learning_rate,
            weight_decay=weight_decay,
            eps=self.eps,
            maximize=False,
        )


class TorchUpdate(Update):
    """A step of a torch.optim class.

    A checkpoint holds tensors by parameter and nothing else, so an optimizer that remembers anything else is
    refused at its first step: a run of it could not be resumed.
    """

    def __init__(
        self,
        groups: Iterable[ParameterGroup],
        optimizer: type[torch.optim.Optimizer],
        options: Mapping[str, Any],
    ):
        super().__init__(groups)
        rates = [
            {"params": group.parameters, "lr": group.learning_rate, "weight_decay": group.weight_decay}
            for group in self.groups
        ]
        self.optimizer = optimizer(rates, **options)
        self.state = self.optimizer.state
        self.unsaved = self._unsaved()

    def step(self, factor: float = 1.0) -> None:
        for group, inner in zip(self.groups, self.optimizer.param_groups, strict=True):
            inner["lr"] = group.learning_rate * factor
        self.optimizer.step()
        self._refuse_unsaved_state()

    def placed(self, name: str, value: Tensor, parameter: Tensor) -> Tensor:
        """torch counts its steps on the processor, wherever the weights are."""
        return value if name == "step" else super().placed(name, value, parameter)

    def _unsaved(self) -> dict[str, str]:
        """What no checkpoint holds: settings of the groups, and attributes of the optimizer itself."""
        settings = {
            f"param_groups[{i}][{name!r}]": value
            for i, group in enumerate(self.optimizer.param_groups)
            for name, value in group.items()
            if name not in ("params", "lr")
        }
        attributes = {
            f"self.{name}": value
            for name, value in vars(self.optimizer).items()
            if name not in ("defaults", "param_groups", "state") and not name.startswith("_")
        }
        plain = (bool, int, float, str, tuple, list, type(None))
        return {
            name: repr(value) for name, value in (settings | attributes).items() if isinstance(value, plain)
        }

    def _refuse_unsaved_state(self) -> None:
        unsaved = {name for name, value in self._unsaved().items() if self.unsaved.get(name) != value}
        for remembered in self.state.values():
            unsaved |= {f"state[{name!r}]" for name, v in remembered.items() if not isinstance(v, Tensor)}
        if unsaved:
            raise RunError(
                f"{type(self.optimizer).__name__} cannot be resumed: it changes "
                f"{first_few(sorted(unsaved))}, and a checkpoint holds only the tensors of each parameter's "
                "state. Keep it there as a tensor, or use another optimizer."
            )


COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic p(s) = a·s + b·s³ + c·s⁵, whose iterates take every singular value in (0, 1] near 1."""
ITERATIONS = 5


class MuonUpdate(GroupwiseUpdate):
    """W ← W − learning_rate·(0.2·√max(rows, columns)·orth(momentum) + weight_decay·W), for matrices alone.

    The same steps as `torch.optim.Muon(adjust_lr_fn="match_rms_adamw")`, whose iteration is in bfloat16 on
    every device: processors without a product for it take twenty times as long as in float32.
    """

    kept = ("momentum_buffer",)

    def __init__(self, groups: Iterable[ParameterGroup], *, momentum: float):
        super().__init__(groups)
        self.momentum = momentum

    def move(self, parameters: list[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        for matrices in _alike(parameters):
            directions = self.directions([self._ahead(p) for p in matrices])
            size = 0.2 * max(matrices[0].shape) ** 0.5
            for p, direction in zip(matrices, directions, strict=True):
                p.mul_(1 - learning_rate * weight_decay)
                p.add_(direction, alpha=-learning_rate * size)

    def directions(self, matrices: list[Tensor]) -> list[Tensor]:
        """Momenta of one shape, or of that shape transposed, each made orthogonal."""
        return orthogonal_each(matrices)

    def _ahead(self, p: Tensor) -> Tensor:
        """Nesterov's momentum: the running mean of the gradients, with this one counted ahead."""
        assert p.grad is not None
        mean = self.state[p]["momentum_buffer"].lerp_(p.grad, 1 - self.momentum)
        return p.grad.lerp(mean, self.momentum)


def orthogonal_each(matrices: list[Tensor]) -> list[Tensor]:
    """Matrices of one shape, or of that shape transposed, each as `orthogonal` makes it."""
    made = orthogonal(torch.stack([_wide(matrix) for matrix in matrices]))
    return [each if _is_wide(matrix) else each.T for matrix, each in zip(matrices, made, strict=True)]


def orthogonal(matrices: Tensor) -> Tensor:
    """(N, rows, columns), rows ≤ columns -> U·S'·Vᵀ of each U·S·Vᵀ, S' about 1 (Newton-Schulz)."""
    a, b, c = COEFFICIENTS
    x = matrices.to(_fast_type(matrices))
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value above 1
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.to(matrices.dtype)


def _fast_type(x: Tensor) -> torch.dtype:
    """The type in which this device multiplies fast; the iteration is stable in bfloat16 too."""
    return torch.bfloat16 if x.device.type == "cuda" else torch.promote_types(x.dtype, torch.float32)


def _alike(matrices: Iterable[Tensor]) -> Iterable[list[Tensor]]:
    """Those that are of one shape, type and device, or of that shape transposed."""
    groups: dict[object, list[Tensor]] = defaultdict(list)
    for p in matrices:
        groups[(*sorted(p.shape), p.dtype, p.device)].append(p)
    return groups.values()


def _is_wide(matrix: Tensor) -> bool:
    return matrix.shape[0] <= matrix.shape[1]


def _wide(matrix: Tensor) -> Tensor:
    """With no more rows than columns: the smaller of the two Gram matrices is the one to iterate on."""
    return matrix if _is_wide(matrix) else matrix.T
