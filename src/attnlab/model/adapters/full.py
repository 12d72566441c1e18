"""Full fine-tuning."""

from __future__ import annotations

from torch import nn

from attnlab.model.adapters.adapter import Adapter
from attnlab.model.model import Model
from attnlab.model.terms import Term, terms_of


class Full(Adapter):
    """Full: every weight of the model is trained.

    Formula: W x, with W trained from where it was.

    Cost: no parameters more, and all of them are trained; attached, it holds a copy of the weights before.

    When it helps: the default. With enough data nothing does better; a small set is soon learned by heart.

    Paper: Howard and Ruder 2018, "Universal Language Model Fine-tuning for Text Classification".
    """

    def insert(self, model: Model, seed: int) -> None:
        pass

    def remove(self, model: Model) -> None:
        pass

    def own(self) -> list[nn.Parameter]:
        return []

    def borrows(self, model: Model) -> list[str]:
        return [name for name, _ in model.named_parameters()]

    def merge(self) -> None:
        """Leave the trained weights in the model."""
        self.leave()

    def terms(self) -> list[Term]:
        return []

    def borrowed_terms(self, part: nn.Module) -> list[Term]:
        return terms_of(part)
