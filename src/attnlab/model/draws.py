"""Random numbers: weights are drawn on the CPU, so that every device starts from the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@torch.no_grad()
def fill_normal(weight: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Fill with normal numbers; on the device "meta" there is nothing to fill."""
    if not weight.is_meta:
        drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float32, device="cpu")
        weight.copy_(drawn * std)


def seed_everything(seed: int) -> None:
    """What `torch.manual_seed` does, without importing torch's compiler, and a hundred times as fast."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


class Undrawn(TorchFunctionMode):
    """Leaves out torch's own random numbers, which on "meta" fill nothing and load its compiler."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), named: dict[str, Any] | None = None
    ) -> Any:
        if getattr(function, "__name__", "") in ("normal_", "uniform_", "kaiming_uniform_"):
            return arguments[0] if arguments else (named or {})["tensor"]
        return function(*arguments, **(named or {}))


# ---------------------------------------------------------------- dropout
class Dropout(nn.Dropout):
    """torch's own, which is passed by where nothing is trained: a dozen of them cost a written token 5%."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else x
