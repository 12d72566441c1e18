"""Matrix products in float32 on a CPU, by the library that is faster on this machine.

torch multiplies with MKL, which leaves half the speed of some processors (AMD's with AVX-512) unused; oneDNN,
which torch carries too, does not. Both round as float32 does. Which one is used is measured once in a
process, and recorded with a run's versions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMALLEST, FEWEST_ROWS = 2**22, 32
"""Multiplications and rows below which a product is bound by its call or by reading, and left to torch."""
FASTER = 1.5
"""How many times as fast oneDNN must be. Where MKL is at home it is at 0.9 to 1.2, elsewhere above 2: the
choice does not hang on a noisy measurement."""


class LinearMap(nn.Linear):
    """x Wᵀ + b, a layer as torch's own."""

    def forward(self, x: Tensor) -> Tensor:
        return linear_map(x, self.weight, self.bias)


def linear_map(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (…, D), weight (E, D), bias (E) -> (…, E)."""
    if not _by_onednn(x, weight.T):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        y: Tensor = _LinearMap.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return y
    return _onednn(x, weight.T, bias)


class _LinearMap(torch.autograd.Function):
    """A linear map and its gradients, which are such maps too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight.T, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dy,), (x, weight), (of_x, of_weight, of_bias) = gradients, ctx.saved_tensors, ctx.needs_input_grad
        rows = dy.flatten(0, -2)
        return (
            linear_map(dy, weight.T) if of_x else None,
            linear_map(x.flatten(0, -2).T, rows.T).T if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def multiply(a: Tensor, b: Tensor, *, out: Tensor, bias: Tensor | None = None) -> Tensor:
    """a (N, K) times b (K, M), and a bias (M), into `out`; without a gradient."""
    if _by_onednn(a, b):
        return out.copy_(_onednn(a, b, bias))
    return torch.mm(a, b, out=out) if bias is None else torch.addmm(bias, a, b, out=out)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a (N, K) times b (K, M) to `total`; without a gradient."""
    if _by_onednn(b.T, a.T):
        total += _onednn(b.T, a.T).T  # this way round it is up to half faster where N is a vocabulary
    elif total.dtype == a.dtype:
        total.addmm_(a, b)
    else:
        total += a @ b


def _by_onednn(a: Tensor, b: Tensor) -> bool:
    if a.device.type != "cpu" or not a.dtype == b.dtype == torch.float32:
        return False
    if a.numel() < FEWEST_ROWS * a.shape[-1] or a.numel() * b.shape[-1] < SMALLEST:
        return False
    if (
        torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
    ):
        return False
    return faster_products() == "oneDNN"


def _onednn(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.T, bias, "none", [], "")
    return product


@cache
def faster_products() -> str:
    """The library of this machine: oneDNN where it is there, right, and much faster; else MKL."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return "MKL"
    a, b = torch.linspace(-1, 1, 128 * 256).view(128, 256), torch.eye(256)
    with torch.no_grad():
        if not torch.equal(_onednn(a, b), a):
            return "MKL"
        own = _seconds(lambda: a @ b)
        return "oneDNN" if own > FASTER * _seconds(lambda: _onednn(a, b)) else "MKL"


def _seconds(work: Callable[[], object], rounds: int = 9) -> float:
    """The shortest of a few rounds, in the time of this thread alone: others on the machine do not count."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    shortest = float("inf")
    for _ in range(rounds):
        began = time.thread_time()
        work()
        shortest = min(shortest, time.thread_time() - began)
    torch.set_num_threads(threads)
    return shortest
