"""Only the top layers."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from attnlab.config.ranges import Count
from attnlab.model.adapters.adapter import Adapter
from attnlab.model.model import Model
from attnlab.model.stack_counts import block_terms, blocks_of
from attnlab.model.terms import Term, terms_of
from attnlab.model.trunks.transformer import Transformer, transformer_of


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
