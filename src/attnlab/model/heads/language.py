"""The language-model head."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Positive
from attnlab.model.heads.head import Head
from attnlab.model.losses import IGNORE, LossSum, vocabulary_loss
from attnlab.model.products import LinearMap, linear_map
from attnlab.model.terms import Term, linear, terms_of
from attnlab.model.tokens import Tokens


class LanguageModel(Head):
    """Language model: a score for every word of the vocabulary, at every position.

    Formula: E·s·f(h) + b, where E is the token table itself (`tied`) or one of its own, f nothing
    or a dense layer with GELU and norm (`transform=dense`, as in BERT), s a scale
    (`inverse_root`: 1/√D, as in T5).

    Cost: V·D parameters untied, none tied; the loss never holds more than a chunk of the logits.

    When it helps: every pretraining. Tying saves V·D parameters and helps small models.

    Paper: Press and Wolf 2017, "Using the Output Embedding to Improve Language Models".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = (
        {},
        {"tied": False},
        {"bias": True, "transform": "dense"},
        {"scale": "inverse_root"},
    )

    scores_words: ClassVar[bool] = True

    def __init__(
        self,
        width: int,
        tokens: nn.Embedding,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        *,
        tied: bool = True,
        bias: bool = False,
        transform: Literal["none", "dense"] = "none",
        scale: Positive | Literal["inverse_root"] = 1.0,
    ):
        super().__init__()
        self.width, self.vocabulary, self.tied = width, tokens.num_embeddings, tied
        # the module is shared, not its parameter: sharing that is silently undone when weights are assigned
        self.table = tokens if tied else nn.Embedding(self.vocabulary, width)
        self.bias = nn.Parameter(torch.zeros(self.vocabulary)) if bias else None
        self.inner = self.table.embedding_dim
        self.transform = self._transform(transform, norm)
        self.scale = width**-0.5 if scale == "inverse_root" else scale

    def _transform(self, kind: str, norm: Callable[[int], nn.Module]) -> nn.Module:
        if kind == "dense":
            return nn.Sequential(LinearMap(self.width, self.inner), nn.GELU(), norm(self.inner))
        if self.inner != self.width:  # a tied table that is narrower, beside concatenated positions
            return LinearMap(self.width, self.inner, bias=False)
        return nn.Identity()

    def initialise(self, generator: torch.Generator | None) -> None:
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def shared_tables(self) -> list[nn.Embedding]:
        return [self.table] if self.tied else []

    def scaled(self, hidden: Tensor) -> Tensor:
        """What the table is multiplied with."""
        transformed: Tensor = self.transform(hidden)
        return transformed if self.scale == 1 else transformed * self.scale

    def forward(self, hidden: Tensor, tokens: Tokens | None = None) -> Tensor:
        """Logits (…, V)."""
        return linear_map(self.scaled(hidden), self.table.weight, self.bias)

    def loss(
        self, hidden: Tensor, targets: Tensor, *, smoothing: float = 0.0, z_weight: float = 0.0
    ) -> LossSum:
        """Cross-entropy with targets of hidden's leading shape; IGNORE (-100) marks those without one."""
        wanted = targets.flatten()
        kept = (wanted != IGNORE).nonzero()[:, 0]  # by number: the gradient takes a tenth of a mask's time
        x = self.scaled(hidden.flatten(0, -2).index_select(0, kept))
        return vocabulary_loss(
            x, self.table.weight, self.bias, wanted[kept], smoothing=smoothing, z_weight=z_weight
        )

    def parameter_terms(self) -> list[Term]:
        terms = [] if self.tied else [Term("output table", "V·D", self.vocabulary * self.width)]
        if isinstance(self.transform, nn.Sequential):
            terms.append(linear("transform", self.width, self.inner, True, "D·D"))
            terms += terms_of(self.transform[2])
        elif isinstance(self.transform, nn.Linear):
            terms.append(linear("transform", self.width, self.inner, False, "D·(D−part)"))
        if self.bias is not None:
            terms.append(Term("output bias", "V", self.vocabulary))
        return terms

    def flops(self, positions: int) -> int:
        transform = 0 if isinstance(self.transform, nn.Identity) else self.width * self.inner
        return 2 * positions * (self.vocabulary * self.inner + transform)


def language_head(head: Head) -> LanguageModel:
    """The head of a model that predicts words: a task's check has refused every other."""
    assert isinstance(head, LanguageModel)
    return head
