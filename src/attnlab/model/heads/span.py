"""The span head."""

from __future__ import annotations

from torch import Tensor

from attnlab.model.heads.head import Head
from attnlab.model.products import LinearMap
from attnlab.model.terms import Term, linear
from attnlab.model.tokens import Tokens

FIRST = 0.4
"""How large the first scores are, of those of unit variance: about BERT's."""


class Span(Head):
    """Span: for each token, how well an answer starts and ends there.

    Formula: (S·h_i, E·h_i); an answer i … j scores S·h_i + E·h_j, and no answer scores
    S·h_0 + E·h_0 at the first token.

    Cost: 2·D + 2 parameters.

    When it helps: questions whose answer stands in the passage.

    Paper: Devlin et al. 2018, "BERT"; Rajpurkar et al. 2018, "Know What You Don't Know".
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.scores = LinearMap(width, 2)

    def quieten(self) -> None:
        """Small first scores: that of the first token is the same in all rows, and a large one would be a
        belief about how many questions have no answer."""
        self.scores.weight.mul_(FIRST)

    def forward(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """(B,T,D) -> (B,T,2): start and end. Which tokens can be either is the task's to say."""
        scores: Tensor = self.scores(hidden)
        return scores

    def parameter_terms(self) -> list[Term]:
        return [linear("scores", self.width, 2, True, "D·2")]

    def flops(self, positions: int) -> int:
        return 2 * positions * self.width * 2
