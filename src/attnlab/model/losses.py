"""Cross-entropy over a vocabulary, without ever holding all logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlab.model.products import add_product, multiply

IGNORE = -100
"""The target of a position that has none."""
CHUNK = 512
"""Rows whose logits exist at one time."""


@dataclass(frozen=True)
class LossSum:
    """A loss as a sum and its number of targets, so that parts of a batch add up to the whole.

    `each` (N) holds the nats of the targets one by one, in the order of their places (B,T); it is
    there when no gradient was asked for, since training has no use for it; a sum of two has none.
    A loss of several `parts` names the one of the predicted tokens first, and holds it as `words`: a
    perplexity is made of that alone. `penalty` is what smoothing and z-loss add to `total` in training: it
    has a gradient, and is no part of what is reported.
    """

    total: Tensor
    count: Tensor
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    each: Tensor | None = None
    words: LossSum | None = None
    penalty: Tensor | None = None

    @property
    def reported(self) -> Tensor:
        """The sum of the plain cross-entropies."""
        return self.total if self.penalty is None else self.total - self.penalty

    @property
    def of_words(self) -> LossSum:
        return self if self.words is None else self.words

    @property
    def mean(self) -> Tensor:
        return self.total / self.count.clamp(min=1)

    def __add__(self, other: LossSum) -> LossSum:
        shared = {name: self.parts[name] + other.parts[name] for name in self.parts if name in other.parts}
        alone = self.words is None and other.words is None
        penalties = [one.penalty for one in (self, other) if one.penalty is not None]
        return LossSum(
            self.total + other.total,
            self.count + other.count,
            {**self.parts, **other.parts, **shared},
            words=None if alone else self.of_words + other.of_words,
            penalty=torch.stack(penalties).sum() if penalties else None,
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
            total, penalty = _ChunkedLoss.apply(*arguments)  # type: ignore[no-untyped-call]
            each = None
        else:
            total, penalty, each = _loss(*arguments)
    count = torch.tensor(len(targets), device=x.device)
    return LossSum(total, count, each=each, penalty=penalty if smoothing or z_weight else None)


def _loss(
    x: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, z_weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    each = x.new_zeros(len(x), dtype=torch.promote_types(x.dtype, torch.float32))
    total, penalty = each.new_zeros(()), each.new_zeros(())
    products = _Products(x, table, bias)
    for rows in _chunks(len(x)):
        losses = _Losses(products.logits(rows), targets[rows], smoothing, z_weight)
        each[rows] = losses.each
        total += each[rows].sum()
        penalty += losses.penalty
    return total, penalty, each


def _chunks(count: int) -> list[slice]:
    return [slice(i, i + CHUNK) for i in range(0, count, CHUNK)]


class _Products:
    """The matrix products of a loss, all in the type of x."""

    def __init__(self, x: Tensor, table: Tensor, bias: Tensor | None):
        self.x, self.table = x, table.to(x.dtype)
        self.bias = None if bias is None else bias.to(x.dtype)
        # one chunk of logits, used for all of them: asking for that much memory anew costs a tenth
        self.buffer = x.new_empty(min(CHUNK, len(x)), len(table))

    def logits(self, rows: slice) -> Tensor:
        """The logits of a chunk, in float32 at the least."""
        x = self.x[rows]
        room = self.buffer[: len(x)]
        logits = multiply(x, self.table.T, out=room, bias=self.bias)
        return logits.float() if x.dtype in (torch.float16, torch.bfloat16) else logits


class _Losses:
    """The loss of each row of logits (N, V)."""

    def __init__(self, logits: Tensor, targets: Tensor, smoothing: float, z_weight: float):
        self.targets, self.smoothing, self.z_weight = targets[:, None], smoothing, z_weight
        self.wanted = logits.gather(1, self.targets)[:, 0]
        self.mean = logits.mean(-1) if smoothing else None
        self.log_z = self.sum_of(logits)

    def sum_of(self, logits: Tensor) -> Tensor:
        """(N) the logarithm of the softmax's sum; logits are written over."""
        largest = logits.amax(-1, keepdim=True)
        return logits.sub_(largest).exp_().sum(-1).log() + largest[:, 0]

    @property
    def each(self) -> Tensor:
        loss = self.log_z - (1 - self.smoothing) * self.wanted
        if self.mean is not None:
            loss = loss - self.smoothing * self.mean
        if self.z_weight:
            loss = loss + self.z_weight * self.log_z.square()
        return loss

    @property
    def penalty(self) -> Tensor | float:
        """What smoothing and z-loss add to the cross-entropies, over all rows."""
        if not self.smoothing and not self.z_weight:
            return 0.0
        return (self.each - (self.log_z - self.wanted)).sum()


class _Softmax(_Losses):
    """Logits (N, V), written over with their softmax, which serves the loss and its gradient."""

    def sum_of(self, logits: Tensor) -> Tensor:
        largest = logits.amax(-1) if self.z_weight else None
        self.softmax = torch.softmax(logits, -1, out=logits)  # a row at a time, which stays in the cache
        if largest is None:  # infinite where the target's share is 0: see `_ChunkedLoss`
            return self.wanted - self.softmax.gather(1, self.targets)[:, 0].log()
        return largest - self.softmax.amax(-1).log()

    def gradient(self) -> Tensor:
        """∂loss/∂logits, written over the softmax."""
        d = self.softmax
        if self.z_weight:
            d *= (1 + 2 * self.z_weight * self.log_z)[:, None]
        if self.smoothing:
            d -= self.smoothing / d.shape[1]
        return d.scatter_add_(1, self.targets, d.new_full((len(d), 1), self.smoothing - 1))


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
    ) -> tuple[Tensor, Tensor]:
        needs_x, needs_table, needs_bias = ctx.needs_input_grad[:3]
        total = x.new_zeros((), dtype=torch.promote_types(x.dtype, torch.float32))
        penalty = torch.zeros_like(total)
        dx = torch.empty_like(x) if needs_x else None
        dtable = torch.zeros_like(table) if needs_table else None
        dbias = torch.zeros_like(bias) if needs_bias and bias is not None else None
        products = _Products(x, table, bias)
        for rows in _chunks(len(x)):
            softmax = _Softmax(products.logits(rows), targets[rows], smoothing, z_weight)
            total += softmax.each.sum()
            penalty += softmax.penalty
            d = softmax.gradient().to(x.dtype)
            if dx is not None:
                multiply(d, products.table, out=dx[rows])
            if dtable is not None:
                add_product(dtable, d.T, x[rows])
            if dbias is not None:
                dbias += d.sum(0)
        if not bool(total.isfinite()):  # a target so unlikely that its share of the softmax is 0
            total, penalty, _ = _loss(x, table, bias, targets, smoothing, z_weight)
        ctx.save_for_backward(dx, dtable, dbias)
        ctx.mark_non_differentiable(penalty)
        return total, penalty

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if d is None else d * gradients[0].to(d.dtype) for d in ctx.saved_tensors)
        return (*scaled, None, None, None)
