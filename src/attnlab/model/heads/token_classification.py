"""The head that labels tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.model.heads.head import Head
from attnlab.model.terms import Term, linear
from attnlab.model.tokens import Tokens

FIRST = 0.5
"""Of the usual first weights."""


class TokenClassification(Head):
    """Token classification: a score for each class, at every token.

    Formula: W·h + b, token by token.

    Cost: C·(D + 1) parameters for C classes. C is what the labels have (`labels`), unless it is given.

    When it helps: entities, parts of speech, anything that is said of words and not of texts.

    Paper: Devlin et al. 2018, "BERT".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"classes": 5})

    def __init__(
        self,
        width: int,
        dropout: float = 0.0,
        labels: int = 2,
        *,
        classes: Count | Literal["labels"] = "labels",
    ):
        super().__init__()
        outputs = labels if classes == "labels" else classes
        if outputs < 1:
            raise ValueError(f"classes is {classes}; a head needs at least 1 output.")
        self.width, self.classes = width, outputs
        self.dropout = nn.Dropout(dropout)
        self.scores = nn.Linear(width, outputs)

    def quieten(self) -> None:
        """Small first scores: with a variance of 1 the first loss would be half a nat above a guess's."""
        self.scores.weight.mul_(FIRST)

    def forward(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """(B,T,D) -> (B,T,C)."""
        return self.scores(self.dropout(hidden))

    def parameter_terms(self) -> list[Term]:
        return [linear("scores", self.width, self.classes, True, "D·C")]

    def flops(self, positions: int) -> int:
        return 2 * self.width * self.classes * positions
