from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from attnlab.config.ranges import BelowOne
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.model.heads.head import Head
from attnlab.model.heads.language import language_head
from attnlab.model.losses import IGNORE, LossSum
from attnlab.model.tokens import Tokens
from attnlab.tasks.task import Prepared, Task, tokens_of
from attnlab.tasks.vocabulary import Vocabulary


class SequenceToSequence(Task):
    """Sequence to sequence: the encoder reads the source, the decoder predicts the target after it.

    Formula: −Σ log p(y_{i+1} | source, y_1 … y_i), with the true y before each (teacher forcing);
    `smoothing` ε mixes each target with the uniform distribution in training.

    Cost: two stacks; the target's tokens alone are projected onto the vocabulary.

    When it helps: translating and summarising, where source and target are apart.

    Paper: Sutskever et al. 2014, "Sequence to Sequence Learning"; Vaswani et al. 2017.
    """

    sees = "source and before"
    predicted_column: ClassVar[Literal["ids", "target"]] = "target"
    predicts_all = True
    two_stacks = True
    packs = False
    encodings: ClassVar[tuple[str, ...]] = ("translation", "image_translation")

    def __init__(self, vocabulary: Vocabulary, *, smoothing: BelowOne = 0.0):
        super().__init__(vocabulary)
        if not 0 <= smoothing < 1:
            raise ConfigError(f"task.smoothing is {smoothing}; it must be at least 0 and below 1.")
        self.smoothing = smoothing

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        target, real, sizes = batch.target_ids, batch.target_real, batch.target_sizes
        assert target is not None and real is not None and sizes is not None
        return replace(taught(target, real, sizes, batch.ids, tokens_of(batch)), vectors=batch.vectors)

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        smoothing = self.smoothing if training else 0.0  # what is reported is the plain cross-entropy
        return language_head(head).loss(hidden, prepared.targets, smoothing=smoothing)


def taught(target: Tensor, real: Tensor, sizes: Tensor, source: Tensor, source_tokens: Tokens) -> Prepared:
    """Teacher forcing: the decoder reads the target (B,U) but its last token, and predicts all but its first.

    `sizes` are the target's bytes, token by token. Its padding, on the right, no token that counts sees.
    """
    wanted = torch.where(real[:, 1:], target[:, 1:], IGNORE)
    return Prepared(
        ids=target[:, :-1],
        targets=wanted,
        tokens=Tokens.of(wanted.shape[1]),
        source=source,
        source_tokens=source_tokens,
        sizes=sizes[:, 1:],
    )
