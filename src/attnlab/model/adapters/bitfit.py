"""BitFit."""

from __future__ import annotations

from torch import nn

from attnlab.model.adapters.adapter import Adapter
from attnlab.model.heads.language import LanguageModel
from attnlab.model.model import Model
from attnlab.model.norms import LayerNorm
from attnlab.model.terms import Term


class BitFit(Adapter):
    """BitFit: only the model's own biases are trained.

    Formula: W x + b, with W frozen and b trained, in every map and norm.

    Cost: no parameters more; about one in a thousand of the model's own is trained.

    When it helps: small data. Nothing is added to the model, so it runs as fast as before.

    Paper: Ben Zaken et al. 2021, "BitFit: Simple Parameter-efficient Fine-tuning".
    """

    def insert(self, model: Model, seed: int) -> None:
        if not self.borrows(model):
            raise ValueError("This model has no biases to train; build it with bias=true, or use lora.")

    def remove(self, model: Model) -> None:
        pass

    def own(self) -> list[nn.Parameter]:
        return []

    def borrows(self, model: Model) -> list[str]:
        return [name for name, _ in model.named_parameters() if name.rpartition(".")[2] == "bias"]

    def merge(self) -> None:
        """Leave the trained biases in the model."""
        self.leave()

    def terms(self) -> list[Term]:
        return []

    def borrowed_terms(self, part: nn.Module) -> list[Term]:
        biased = [one for one in part.modules() if getattr(one, "bias", None) is not None]
        maps = [one.out_features for one in biased if isinstance(one, nn.Linear)]
        norms = [one.width for one in biased if isinstance(one, LayerNorm)]
        words = [one.vocabulary for one in biased if isinstance(one, LanguageModel)]
        sums = {"maps": ("Σ out", maps), "norms": ("Σ D", norms), "words": ("V", words)}
        return [
            Term(f"biases of {of}", formula, sum(sizes)) for of, (formula, sizes) in sums.items() if sizes
        ]
