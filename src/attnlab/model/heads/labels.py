"""Heads that give labels: to a text, to each token, to a pair of texts beside its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.model.heads.head import Head
from attnlab.model.heads.language import LanguageModel
from attnlab.model.products import LinearMap
from attnlab.model.terms import Term, linear
from attnlab.model.tokens import Tokens

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class Classification(Head):
    """Classification: a score for each class (or one number), from one vector for the whole text.

    Formula: W·pool(h) + b, where pool is the first token's vector, the last real token's, or the
    mean over real tokens; `transform=tanh` puts a dense layer with tanh before it, as in BERT,
    `transform=relu` one with ReLU, as in DistilBERT.

    Cost: C·(D + 1) parameters for C classes: 2D + 2 for two. C is what the labels have (`labels`), unless it
    is given.

    When it helps: any labelled text. First for encoders with a [CLS] token, last for decoders
    (the only one that saw everything), mean where neither is trained for it.

    Paper: Devlin et al. 2018, "BERT".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = (
        {},
        {"pooling": "mean", "classes": 3},
        {"pooling": "last", "transform": "tanh"},
        {"transform": "relu"},
    )

    def __init__(
        self,
        width: int,
        dropout: float = 0.0,
        labels: int = 2,
        *,
        classes: Count | Literal["labels"] = "labels",
        pooling: Literal["first", "mean", "last"] = "first",
        transform: Literal["none", "tanh", "relu"] = "none",
    ):
        super().__init__()
        outputs = labels if classes == "labels" else classes
        if outputs < 1:
            raise ValueError(f"classes is {classes}; a head needs at least 1 output.")
        self.width, self.classes, self.pooling = width, outputs, pooling
        self.transform: nn.Module = nn.Identity()
        if transform != "none":
            self.transform = nn.Sequential(LinearMap(width, width), ACTIVATIONS[transform]())
        self.dropout = nn.Dropout(dropout)
        self.scores = LinearMap(width, outputs)

    def forward(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """(B,T,D), or one vector for each text (B,D) that was pooled before, -> (B,C)."""
        vectors = hidden if hidden.ndim == 2 else pooled(hidden, tokens, self.pooling)
        return self.scores(self.dropout(self.transform(vectors)))

    def parameter_terms(self) -> list[Term]:
        last = linear("scores", self.width, self.classes, True, "D·C")
        if isinstance(self.transform, nn.Identity):
            return [last]
        return [linear("transform", self.width, self.width, True, "D·D"), last]

    def flops(self, positions: int) -> int:
        transform = 0 if isinstance(self.transform, nn.Identity) else self.width**2
        return 2 * (self.width * self.classes + transform)  # one vector a text


def pooled(hidden: Tensor, tokens: Tokens, pooling: str) -> Tensor:
    """One vector for each row (B,D), from its real tokens alone."""
    real = tokens.real
    if tokens.document is not None:
        raise ValueError("Packed documents cannot be pooled as one text: classify them as rows of their own.")
    if pooling == "mean":
        share = torch.ones_like(tokens.index) if real is None else real
        share = share.to(hidden.dtype)[..., None]
        return (hidden * share).sum(1) / share.sum(1).clamp(min=1)
    if pooling == "ends":
        if tokens.patch is not None:
            return hidden[:, int((tokens.patch[0] > 0).nonzero()[0]) - 1]
        pooling = "last"
    if real is None:
        return hidden[:, 0] if pooling == "first" else hidden[:, -1]
    place = real.long().argmax(1) if pooling == "first" else (real * tokens.index).argmax(1)
    rows = torch.arange(hidden.shape[0], device=hidden.device)  # len() would fix the number in an ONNX file
    return hidden[rows, place]


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
        self.scores = LinearMap(width, outputs)

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
