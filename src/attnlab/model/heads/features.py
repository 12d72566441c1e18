"""The head of a model that has none: what the trunk made of a text, handed on."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from attnlab.model.heads.head import Head
from attnlab.model.heads.labels import pooled
from attnlab.model.products import LinearMap
from attnlab.model.terms import Term, linear
from attnlab.model.tokens import Tokens


class Features(Head):
    """Features: the trunk's own vectors, one a token, or one for the whole text.

    Formula: h, or pool(h) of the first token, the last real one, or the mean over real tokens;
    `transform=tanh` is BERT's pooler, tanh(W·pool(h) + b).

    Cost: no parameters, or D·(D + 1) for the transform.

    When it helps: sentence embeddings and search, and trunks published without a head.

    Paper: Reimers and Gurevych 2019, "Sentence-BERT".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"pooling": "first", "transform": "tanh"})

    def __init__(
        self,
        width: int,
        *,
        pooling: Literal["none", "first", "mean", "last"] = "none",
        transform: Literal["none", "tanh"] = "none",
    ):
        super().__init__()
        self.width, self.pooling = width, pooling
        self.transform = (
            nn.Sequential(LinearMap(width, width), nn.Tanh()) if transform == "tanh" else nn.Identity()
        )

    def forward(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """(B,T,D) -> (B,T,D), or (B,D) pooled."""
        return self.transform(hidden if self.pooling == "none" else pooled(hidden, tokens, self.pooling))

    def parameter_terms(self) -> list[Term]:
        if isinstance(self.transform, nn.Identity):
            return []
        return [linear("transform", self.width, self.width, True, "D·D")]

    def flops(self, positions: int) -> int:
        if isinstance(self.transform, nn.Identity):
            return 0
        return 2 * self.width**2 * (positions if self.pooling == "none" else 1)
