"""BitFit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab.model.adapters.adapter import Adapter
from attnlab.model.model import Model
from attnlab.model.terms import Term


class BitFit(Adapter):
    """BitFit: only the model's own biases are trained.

    Formula: W x + b, with W frozen and b trained, in every map and norm.

    Cost: no parameters more; about one in a thousand of the model's own is trained.

    When it helps: small data. Nothing is added to the model, so it runs as fast as before.

    Paper: Ben Zaken et al. 2021, "BitFit: Simple Parameter-efficient Fine-tuning".
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: list[tuple[nn.Parameter, Tensor]] = []

    def insert(self, model: Model, seed: int) -> None:
        self._before = [(p, p.detach().clone()) for p in biases(model).values()]
        if not self._before:
            raise ValueError("This model has no biases to train; build it with bias=true, or use lora.")

    def remove(self, model: Model) -> None:
        with torch.no_grad():
            for bias, before in self._before:
                bias.copy_(before)

    def merge(self) -> None:
        """Keep the trained biases and let the model go."""
        self._before = []
        self.detach()

    def parameters(self) -> dict[str, nn.Parameter]:
        return biases(self.attached)

    def terms(self) -> list[Term]:
        return []


def biases(model: Model) -> dict[str, nn.Parameter]:
    """Every bias there is, of maps, norms and heads."""
    return {name: p for name, p in model.named_parameters() if name.rpartition(".")[2] == "bias"}
