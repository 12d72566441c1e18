"""Normalisation of one token's vector."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attnlab.config.ranges import Positive
from attnlab.config.registry import Registry
from attnlab.model.terms import Term


def positive(eps: float) -> float:
    if eps <= 0:
        raise ValueError(f"eps is {eps}; it keeps a division from zero, so it must be above 0.")
    return eps


class LayerNorm(nn.LayerNorm):
    """Layer norm: zero mean and unit variance, then a gain and a shift.

    Formula: g·(x − mean) / √(var + eps) + b.

    Cost: 2·D parameters, or D in a model without biases.

    When it helps: the usual choice of encoders and of GPT-2.

    Paper: Ba et al. 2016, "Layer Normalization".
    """

    def __init__(self, width: int, bias: bool = True, *, eps: Positive = 1e-5):
        super().__init__(width, eps=positive(eps), bias=bias)
        self.width, self.shifted = width, bias

    def parameter_terms(self) -> list[Term]:
        return [Term("norm", "2·D" if self.shifted else "D", self.width * (2 if self.shifted else 1))]


class RMSNorm(nn.RMSNorm):
    """RMS norm: unit mean square, then a gain.

    Formula: g·x / √(mean(x²) + eps).

    Cost: D parameters.

    When it helps: as good as layer norm in most reports, with less to compute on an accelerator;
    LLaMA and T5 have it.

    Paper: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization".
    """

    def __init__(self, width: int, *, eps: Positive = 1e-6):
        eps = positive(eps)
        super().__init__(width, eps=eps)
        self.width, self.epsilon = width, eps

    def forward(self, x: Tensor) -> Tensor:
        if _plain_gradient_is_slow(x) and x.dtype == self.weight.dtype:
            return _FusedRMSNorm.apply(x, self.weight, self.epsilon)  # type: ignore[no-untyped-call]
        return super().forward(x)

    def parameter_terms(self) -> list[Term]:
        return [Term("norm", "D", self.width)]


def _plain_gradient_is_slow(x: Tensor) -> bool:
    """On a CPU torch takes the gradient of an RMS norm operation by operation, layer norm's in one kernel."""
    return x.device.type == "cpu" and torch.is_grad_enabled() and not torch.compiler.is_compiling()


class _FusedRMSNorm(torch.autograd.Function):
    """RMS norm with the gradient that layer norm's kernel gives for a mean of 0.

    That kernel also centres the gradient, by mean(g·dy)/rms in each row, which is added again.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        inverse = x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
        ctx.save_for_backward(x, gain, inverse)
        return (x * inverse).mul_(gain)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, inverse = ctx.saved_tensors
        (dy,) = gradients
        wanted = [*ctx.needs_input_grad[:2], False]
        mean = torch.zeros_like(inverse)
        dx, dgain, _ = torch.ops.aten.native_layer_norm_backward(
            dy, x, gain.shape, mean, inverse, gain, None, wanted
        )
        if dx is not None:
            dx += (dy @ gain)[..., None].mul_(inverse).div_(len(gain))
        return dx, dgain, None


class NoNorm(nn.Identity):
    """No normalisation.

    When it helps: as the control, and where a slot for a norm is to stay empty.
    """

    def parameter_terms(self) -> list[Term]:
        return []


NORMS: Registry[nn.Module] = Registry(
    "norms",
    base="torch.nn:Module",
    default="layer",
    variants={
        "layer": "attnlab.model.norms:LayerNorm",
        "rms": "attnlab.model.norms:RMSNorm",
        "none": "attnlab.model.norms:NoNorm",
    },
)
