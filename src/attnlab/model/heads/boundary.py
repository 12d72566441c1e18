"""The language-model head with the span-boundary objective beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.model.heads.language import LanguageModel
from attnlab.model.losses import LossSum, vocabulary_loss
from attnlab.model.products import LinearMap
from attnlab.model.terms import Term, linear, terms_of


class SpanBoundary(LanguageModel):
    """Span boundary: a language model that also guesses each masked word from its span's two neighbours.

    Formula: y_i = f(x_{s−1}, x_{e+1}, p_{i−s+1}), f two dense layers, each with GELU and norm; then
    scores over the vocabulary with the same table.

    Cost: 3·D·D + D·D parameters more, and `longest`·D for the places in a span.

    When it helps: answers that are spans: the boundary learns to hold what is between.

    Paper: Joshi et al. 2019, "SpanBERT".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"tied": False})

    def __init__(
        self,
        width: int,
        tokens: nn.Embedding,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        *,
        tied: bool = True,
        longest: Count = 10,
    ):
        super().__init__(width, tokens, norm, tied=tied)
        if longest < 1:
            raise ValueError(f"longest is {longest}; a span has at least one token.")
        self.longest = longest
        self.places = nn.Embedding(longest, width)
        self.from_boundary = nn.Sequential(
            LinearMap(3 * width, width),
            nn.GELU(),
            norm(width),
            LinearMap(width, width),
            nn.GELU(),
            norm(width),
        )

    def boundary(self, hidden: Tensor, row: Tensor, start: Tensor, end: Tensor, place: Tensor) -> Tensor:
        """What the boundaries say of M masked tokens, (M, D).

        Token `place` of row `row` lies in the masked span [start, end]; all (M). Nothing but
        hidden[row, start − 1], hidden[row, end + 1] and the place in the span is looked at.
        """
        step = place - start
        if len(step) and int(step.max()) >= self.longest:
            raise ValueError(f"A span of {int(step.max()) + 1} tokens is longer than {self.longest}.")
        left, right = hidden[row, start - 1], hidden[row, end + 1]
        return self.from_boundary(torch.cat([left, right, self.places(step)], -1))

    def boundary_loss(
        self, hidden: Tensor, row: Tensor, start: Tensor, end: Tensor, place: Tensor, targets: Tensor
    ) -> LossSum:
        """Cross-entropy of the M masked tokens, guessed from their spans' boundaries."""
        guessed = self.scaled(self.boundary(hidden, row, start, end, place))
        return vocabulary_loss(guessed, self.table.weight, self.bias, targets)

    def parameter_terms(self) -> list[Term]:
        norms = [term for part in self.from_boundary for term in terms_of(part)]
        return [
            *super().parameter_terms(),
            Term("places", "longest·D", self.longest * self.width),
            linear("boundary", 3 * self.width, self.width, True, "3D·D"),
            linear("boundary", self.width, self.width, True, "D·D"),
            *norms,
        ]
