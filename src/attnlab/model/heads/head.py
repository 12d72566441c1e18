"""The contract of a head."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens


class Head(nn.Module):
    """From the trunk's output (B,T,D) to scores."""

    examples: ClassVar[tuple[dict[str, object], ...]] = ({},)
    scores_words: ClassVar[bool] = False
    """Whether it gives every place scores of every word (B,T,V), from the trunk's output there alone."""

    def forward(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        raise NotImplementedError

    def quieten(self) -> None:
        """Make the first weights smaller, where the usual ones would give too large first scores."""

    def shared_tables(self) -> list[nn.Embedding]:
        """The token tables that are the trunk's as well."""
        return []

    def parameter_terms(self) -> list[Term]:
        return []

    def flops(self, positions: int) -> int:
        """Of one forward over this many positions: two for each parameter that multiplies."""
        return 0
