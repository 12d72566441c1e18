"""Muon's own step: momentum made orthogonal, matrices of one shape together, in the device's fast type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from attnlab.training.updates import GroupwiseUpdate, ParameterGroup

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
            updates = orthogonal(torch.stack([_wide(self._ahead(p)) for p in matrices]))
            size = 0.2 * max(matrices[0].shape) ** 0.5
            for p, update in zip(matrices, updates, strict=True):
                p.mul_(1 - learning_rate * weight_decay)
                p.add_(update if _is_wide(p) else update.T, alpha=-learning_rate * size)

    def _ahead(self, p: Tensor) -> Tensor:
        """Nesterov's momentum: the running mean of the gradients, with this one counted ahead."""
        assert p.grad is not None
        mean = self.state[p]["momentum_buffer"].lerp_(p.grad, 1 - self.momentum)
        return p.grad.lerp(mean, self.momentum)


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
