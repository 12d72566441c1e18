"""The head of a sentence encoder."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from attnlab.model.heads.head import Head
from attnlab.model.heads.labels import pooled
from attnlab.model.tokens import Tokens


class Sentence(Head):
    """Sentence: one vector of length 1 for the whole text; the cosine of two is their product.

    Formula: p / |p|, p = pool(h): the mean over real tokens, the first token's, or the last real one's.

    Cost: no parameters.

    When it helps: similarity and search. Mean for encoders; mean or last for decoders, whose last token alone
    has seen the whole text.

    Paper: Reimers and Gurevych 2019, "Sentence-BERT".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"pooling": "last"})

    def __init__(self, *, pooling: Literal["mean", "first", "last"] = "mean"):
        super().__init__()
        self.pooling = pooling

    def forward(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """(B,T,D) -> (B,D)."""
        return F.normalize(pooled(hidden, tokens, self.pooling), dim=-1)
