from __future__ import annotations

from torch import Tensor

from attnlab.config.ranges import NotNegative
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.model.heads.head import Head
from attnlab.model.heads.language import language_head
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.tasks.task import (
    Prepared,
    Task,
    next_sizes,
    next_tokens,
    tokens_of,
)
from attnlab.tasks.vocabulary import Vocabulary


class Causal(Task):
    """Causal: every token predicts the next one of its text.

    Formula: −Σ log p(x_{i+1} | x_1 … x_i); `z_weight` adds z_weight·log²Z in training, which keeps
    the logits' scale in check.

    Cost: every position is a target, so no compute is spent on tokens that teach nothing.

    When it helps: generation, and any text at all: it needs no labels. It sees only the left
    context, so for understanding alone `masked` is often better.

    Paper: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training".
    """

    predicts_all = True
    encodings = ("document", "single", "pair", "prefix")

    def __init__(self, vocabulary: Vocabulary, *, z_weight: NotNegative = 0.0):
        super().__init__(vocabulary)
        self.z_weight = z_weight

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        return Prepared(
            ids=batch.ids,
            targets=next_tokens(batch),
            tokens=tokens_of(batch, backward_looking=True),
            types=batch.types,
            vectors=batch.vectors,
            sizes=next_sizes(batch),
        )

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        z_weight = self.z_weight if training else 0.0  # what is reported is the plain cross-entropy
        return language_head(head).loss(hidden, prepared.targets, z_weight=z_weight)

    def check(self, model: Model) -> None:
        super().check(model)
        if model.trunk.sees != "before":
            raise ConfigError(
                'task "causal" predicts the next token, which model.mask shows: the loss would mean '
                'nothing. Use model.mask = "causal", or task = "masked".'
            )
