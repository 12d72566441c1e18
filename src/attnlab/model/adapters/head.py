"""Only the head."""

from __future__ import annotations

from torch import nn

from attnlab.model.adapters.adapter import Adapter
from attnlab.model.frozen import dropouts
from attnlab.model.model import Model
from attnlab.model.terms import Term


class HeadOnly(Adapter):
    """Head: only the model's head is trained, on what the frozen trunk makes of each text.

    Formula: W·h + b, with h frozen. The trunk runs without dropout, so that h is the same in every epoch.

    Cost: C·(D + 1) parameters for C classes. What the trunk makes of each text is computed once and kept:
    epochs after the first cost next to nothing.

    When it helps: as the baseline of every adaptation, and where time is short. It says what the start knows
    already.

    Paper: Peters et al. 2019, "To Tune or Not to Tune? Adapting Pretrained Representations".
    """

    def __init__(self) -> None:
        super().__init__()
        self._rates: list[tuple[nn.Module, str, float]] = []

    def insert(self, model: Model, seed: int) -> None:
        if not self.borrows(model):
            raise ValueError("This model's head has no weights of its own to train: it shares the words'.")
        self._rates = list(dropouts(model.trunk))
        for part, name, _ in self._rates:
            setattr(part, name, 0.0)

    def remove(self, model: Model) -> None:
        for part, name, rate in self._rates:
            setattr(part, name, rate)

    def own(self) -> list[nn.Parameter]:
        return []

    def borrows(self, model: Model) -> list[str]:
        return head_names(model)

    def merge(self) -> None:
        """Leave the trained head in the model."""
        self.leave()

    def terms(self) -> list[Term]:
        return []


def head_names(model: Model) -> list[str]:
    """The parameters that are the head's alone."""
    return [name for name, _ in model.named_parameters() if name.startswith("head.")]
