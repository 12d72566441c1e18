"""Rotary positions."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from attnlab.model.positions.position import Position, Rotation
from attnlab.model.tokens import Tokens


class Rotary(Position):
    """Rotary: queries and keys are turned by an angle that grows with their position.

    Formula: pairs (x_i, x_{i+K/2}) turned by t·base^(−2i/K); q·k then depends on content and on
    the difference of positions alone.

    Cost: no parameters; any length, though quality falls beyond the trained one.

    When it helps: the usual choice of recent decoders (LLaMA).

    Paper: Su et al. 2021, "RoFormer".
    """

    def __init__(self, head_width: int, *, base: float = 10_000.0):
        super().__init__()
        if head_width % 2:
            raise ValueError(
                f"rotary turns pairs of numbers, and a head width of {head_width} is odd; use an even one."
            )
        if base <= 1:
            raise ValueError(f"base is {base}; it must be above 1.")
        self.head_width, self.base = head_width, base

    def rotation(self, tokens: Tokens) -> Rotation:
        # float32 whatever the model's type: angles as every other implementation has them
        steps = torch.arange(0, self.head_width, 2, device=tokens.position.device).float()
        frequency = self.base ** (-steps / self.head_width)
        angle = (tokens.position[..., None].float() * frequency)[:, None]  # (B|1, 1, T, K/2)
        return partial(_turned, cosine=angle.cos(), sine=angle.sin())


def _turned(x: Tensor, *, cosine: Tensor, sine: Tensor) -> Tensor:
    cosine, sine = cosine.to(x.dtype), sine.to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
