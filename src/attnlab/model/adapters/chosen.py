"""Adapters that add nothing: they choose which of the model's own parameters are trained."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from attnlab.config.ranges import Count
from attnlab.model.adapters.adapter import Adapter
from attnlab.model.frozen import dropouts
from attnlab.model.heads.language import LanguageModel
from attnlab.model.model import Model
from attnlab.model.norms import LayerNorm
from attnlab.model.stack_counts import block_terms, blocks_of
from attnlab.model.terms import Term, terms_of
from attnlab.model.trunks.transformer import Transformer, transformer_of


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


class Top(Adapter):
    """Top: the last layers and the head are trained, everything below them is frozen.

    Formula: W x, with W of the last `layers` blocks trained from where it was. In an encoder-decoder they
    are the decoder's.

    Cost: no parameters more; the backward ends below the last trained layer.

    When it helps: between head and full, in time and in what it can learn.

    Paper: Howard and Ruder 2018, "Universal Language Model Fine-tuning for Text Classification".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({"layers": 1},)

    def __init__(self, *, layers: Count = 2):
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers is {layers}; at least 1 must be trained. For none, use head.")
        self.layers = layers

    def insert(self, model: Model, seed: int) -> None:
        pass

    def remove(self, model: Model) -> None:
        pass

    def own(self) -> list[nn.Parameter]:
        return []

    def borrows(self, model: Model) -> list[str]:
        stack = transformer_of(model.trunk).main
        if self.layers > len(stack.blocks):
            raise ValueError(f"layers is {self.layers}, and this model has {len(stack.blocks)}; use full.")
        parts = [*stack.blocks[-self.layers :], stack.final]
        above = {id(p) for part in parts for p in part.parameters()}
        return [name for name, p in model.named_parameters() if id(p) in above or name.startswith("head.")]

    def merge(self) -> None:
        """Leave the trained layers in the model."""
        self.leave()

    def terms(self) -> list[Term]:
        return []

    def borrowed_terms(self, part: nn.Module) -> list[Term]:
        if not isinstance(part, Transformer):
            return []
        stack = part.main
        blocks = block_terms(blocks_of(stack)[-self.layers :], "n")
        return [*blocks, *(term.inside("final") for term in terms_of(stack.final))]


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
