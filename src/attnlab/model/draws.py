"""Random numbers: weights are drawn on the CPU, so that every device starts from the same."""

from __future__ import annotations

import torch
from torch import Tensor


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
