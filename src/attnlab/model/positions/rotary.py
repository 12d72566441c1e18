"""Rotary positions."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnlab.config.ranges import AboveOne
from attnlab.model.positions.position import Patches, Position, Rotation, grid_places
from attnlab.model.tokens import Tokens


class Rotary(Position):
    """Rotary: queries and keys are turned by an angle that grows with their position.

    Formula: pairs (x_i, x_{i+K/2}) turned by t·base^(−2i/K); q·k then depends on content and on
    the difference of positions alone.

    Cost: no parameters; any length, though quality falls beyond the trained one.

    When it helps: the usual choice of recent decoders (LLaMA). Pairs of a picture's patches are turned by
    row and by column in turn (`patches=grid`), so that words beside them keep their angles; or by order.

    Paper: Su et al. 2021, "RoFormer".
    """

    later = ("patches",)

    def __init__(
        self, head_width: int, grid: int = 0, *, base: AboveOne = 10_000.0, patches: Patches = "grid"
    ):
        super().__init__()
        if head_width % 2:
            raise ValueError(
                f"rotary turns pairs of numbers, and a head width of {head_width} is odd; use an even one."
            )
        if base <= 1:
            raise ValueError(f"base is {base}; it must be above 1.")
        self.head_width, self.base, self.grid = head_width, base, grid if patches == "grid" else 0

    def rotation(self, tokens: Tokens) -> Rotation:
        angle = self.angles(tokens)[:, None]  # (B|1, 1, T, K/2)
        cosine, sine = angle.cos(), angle.sin()
        return partial(_rotated, cosine=torch.cat([cosine, cosine], -1), sine=torch.cat([-sine, sine], -1))

    def angles(self, tokens: Tokens) -> Tensor:
        """(B|1, T, K/2) by how much each pair is turned."""
        # float32 whatever the model's type: angles as every other implementation has them
        steps = torch.arange(0, self.head_width, 2, device=tokens.position.device).float()
        frequency = self.base ** (-steps / self.head_width)
        places = grid_places(tokens, self.grid)
        if places is None:
            where = tokens.position[..., None]
        else:
            where = places[..., torch.arange(len(frequency), device=places.device) % 2]
        return where.float() * frequency


def _rotated(x: Tensor, *, cosine: Tensor, sine: Tensor) -> Tensor:
    cosine, sine = cosine.to(x.dtype), sine.to(x.dtype)
    if x.requires_grad and not torch.compiler.is_compiling():
        return _Rotation.apply(x, cosine, sine)  # type: ignore[no-untyped-call]
    return _turned(x, cosine, sine)


def _turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Each pair (x_i, x_{i+K/2}) turned: x·cos, and its halves changed about times ∓sin."""
    first, second = x.chunk(2, -1)
    return (x * cosine).addcmul_(torch.cat([second, first], -1), sine)


class _Rotation(torch.autograd.Function):
    """A rotation's gradient is the rotation back: two operations, where torch would take a dozen."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _turned(x, cosine, sine)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        return _turned(gradients[0], cosine, -sine), None, None
