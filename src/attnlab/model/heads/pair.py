"""The language-model head with a judgement of sentence pairs beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from torch import nn

from attnlab.model.heads.classification import Classification
from attnlab.model.heads.language import LanguageModel
from attnlab.model.terms import Term


class SentencePair(LanguageModel):
    """Sentence pair: a language model that also judges whether its second text follows the first.

    Formula: scores over the vocabulary at every position, as the language model's; and
    `pair`: W·tanh(W_p·h_0 + b_p) + b over two classes, 0 for texts that follow one another.

    Cost: D·D + 3·D + 2 parameters more.

    When it helps: to hold BERT as it was published; later work found the second task of no use.

    Paper: Devlin et al. 2018, "BERT"; Liu et al. 2019, "RoBERTa", against it.
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"bias": True, "transform": "dense"})

    def __init__(
        self,
        width: int,
        tokens: nn.Embedding,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        *,
        tied: bool = True,
        bias: bool = False,
        transform: Literal["none", "dense"] = "none",
    ):
        super().__init__(width, tokens, norm, tied=tied, bias=bias, transform=transform)
        self.pair = Classification(width, pooling="first", transform="tanh")

    def parameter_terms(self) -> list[Term]:
        return [*super().parameter_terms(), *self.pair.parameter_terms()]

    def flops(self, positions: int) -> int:
        return super().flops(positions) + self.pair.flops(positions)
