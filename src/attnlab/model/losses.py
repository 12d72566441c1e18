"""Cross-entropy over a vocabulary, without ever holding all logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORE = -100
"""The target of a position that has none."""
CHUNK = 512
"""Rows whose logits exist at one time."""


@dataclass(frozen=True)
class LossSum:
    """A loss as a sum and its number of targets, so that parts of a batch add up to the whole."""

    total: Tensor
    count: Tensor
    parts: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count.clamp(min=1)

    def __add__(self, other: LossSum) -> LossSum:
        shared = {name: self.parts[name] + other.parts[name] for name in self.parts if name in other.parts}
        return LossSum(
            self.total + other.total, self.count + other.count, {**self.parts, **other.parts, **shared}
        )


def vocabulary_loss(
    x: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    smoothing: float = 0.0,
    z_weight: float = 0.0,
) -> LossSum:
    """Σ cross-entropy of softmax(x·tableᵀ + bias) over N rows: x (N, D), table (V, D), targets (N).

    `smoothing` ε mixes each target with the uniform distribution; `z_weight` adds z_weight·log²Z,
    which keeps the logits' scale in check. Under autocast the products are of its type.
    """
    device = x.device.type
    if torch.is_autocast_enabled(device):
        x = x.to(torch.get_autocast_dtype(device))
    arguments = (x, table, bias, targets, smoothing, z_weight)
    with torch.autocast(device, enabled=False):
        if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, table, bias)):
            total: Tensor = _ChunkedLoss.apply(*arguments)  # type: ignore[no-untyped-call]
        else:
            zero = x.new_zeros((), dtype=torch.promote_types(x.dtype, torch.float32))
            total = sum((_chunk_loss(*arguments, rows=rows)[0] for rows in _chunks(len(x))), zero)
    return LossSum(total, torch.tensor(len(targets), device=x.device))


def _chunks(count: int) -> list[slice]:
    return [slice(i, i + CHUNK) for i in range(0, count, CHUNK)]


def _chunk_loss(
    x: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    z_weight: float,
    *,
    rows: slice,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of some rows, their logits, and each row's log Z, in float32 at the least."""
    logits = F.linear(x[rows], table.to(x.dtype), None if bias is None else bias.to(x.dtype))
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    log_z = logits.logsumexp(-1)
    wanted = logits.gather(1, targets[rows, None])[:, 0]
    loss = log_z - (1 - smoothing) * wanted
    if smoothing:
        loss = loss - smoothing * logits.mean(-1)
    if z_weight:
        loss = loss + z_weight * log_z.square()
    return loss.sum(), logits, log_z


class _ChunkedLoss(torch.autograd.Function):
    """Value and gradient in one pass over chunks of rows, so that one chunk of logits is all there is."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        z_weight: float,
    ) -> Tensor:
        needs_x, needs_table, needs_bias = ctx.needs_input_grad[:3]
        total = x.new_zeros((), dtype=torch.promote_types(x.dtype, torch.float32))
        dx = torch.empty_like(x) if needs_x else None
        dtable = torch.zeros_like(table) if needs_table else None
        dbias = torch.zeros_like(bias) if needs_bias and bias is not None else None
        for rows in _chunks(len(x)):
            loss, logits, log_z = _chunk_loss(x, table, bias, targets, smoothing, z_weight, rows=rows)
            total += loss
            d = _logit_gradient(logits, log_z, targets[rows], smoothing, z_weight).to(x.dtype)
            if dx is not None:
                torch.mm(d, table.to(x.dtype), out=dx[rows])
            if dtable is not None and dtable.dtype == x.dtype:
                dtable.addmm_(d.T, x[rows])
            elif dtable is not None:
                dtable += d.T @ x[rows]
            if dbias is not None:
                dbias += d.sum(0)
        ctx.save_for_backward(dx, dtable, dbias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if d is None else d * gradients[0].to(d.dtype) for d in ctx.saved_tensors)
        return (*scaled, None, None, None)


def _logit_gradient(
    logits: Tensor, log_z: Tensor, targets: Tensor, smoothing: float, z_weight: float
) -> Tensor:
    """∂loss/∂logits, written over the logits."""
    d = logits.sub_(log_z[:, None]).exp_()
    if z_weight:
        d *= (1 + 2 * z_weight * log_z)[:, None]
    if smoothing:
        d -= smoothing / d.shape[1]
    return d.scatter_add_(1, targets[:, None], d.new_full((len(targets), 1), smoothing - 1))
