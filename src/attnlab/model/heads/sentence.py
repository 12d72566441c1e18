"""The heads of encoders of sentences, and of pictures."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.model.heads.head import Head
from attnlab.model.heads.labels import pooled
from attnlab.model.terms import Term
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


class Contrast(Sentence):
    """Contrast: one vector for a picture or a text, whose products are cosines times a learned scale.

    Formula: e^(s/2)·p / |p|, p = pool(h), so that two vectors' product is e^s·cos; with `pooling=ends` p is
    of a picture the token before its patches, and of a text the last one. Use it with
    similarity(objective=symmetric, temperature=1): e^−s is the temperature, and is learned.

    Cost: one parameter.

    When it helps: pictures and texts in one space, as CLIP has it.

    Paper: Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"pooling": "mean"})

    def __init__(self, *, pooling: Literal["ends", "mean", "first", "last"] = "ends"):
        super().__init__()
        self.pooling = pooling  # type: ignore[assignment]  # of the wider set
        self.log_scale = nn.Parameter(torch.empty(()))

    def initialise(self, generator: torch.Generator | None) -> None:
        nn.init.constant_(self.log_scale, FIRST_SCALE)

    def forward(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """(B,T,D) -> (B,D)."""
        return super().forward(hidden, tokens) * (self.log_scale / 2).exp()

    def parameter_terms(self) -> list[Term]:
        return [Term("log_scale", "1", 1)]


FIRST_SCALE = 2.6592
"""ln(1 / 0.07), as in CLIP."""
