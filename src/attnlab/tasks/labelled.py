"""What tasks about a whole text have in common: one target for each example."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.errors import DataError
from attnlab.model.heads.head import Head
from attnlab.model.heads.labels import Classification
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.tasks.task import Prepared, Task, tokens_of


class Labelled(Task):
    """A text, or a pair of them, has a label, which is predicted from all of it."""

    sees = "all"
    packs = False
    heads: ClassVar[tuple[str, ...]] = ("classification",)
    head: ClassVar[str] = "classification(pooling=mean)"  # the one that serves encoders and decoders alike
    encodings: ClassVar[tuple[str, ...]] = ("single", "pair", "image", "image_text")

    @abstractmethod
    def targets(self, batch: Batch) -> Tensor | None:
        """(B) or (B,C) what is to be predicted of each row."""

    @abstractmethod
    def score_loss(self, scores: Tensor, prepared: Prepared, training: bool) -> LossSum:
        """How wrong the scores (B,C) of a head are."""

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        targets = self.targets(batch)
        if targets is None:
            raise DataError("These rows have no labels, and the task is to predict them.")
        return replace(self.unlabelled(batch), targets=targets)

    def unlabelled(self, batch: Batch) -> Prepared:
        none = torch.zeros(len(batch.ids), dtype=torch.long)
        return Prepared(
            ids=batch.ids,
            targets=none,
            tokens=tokens_of(batch),
            types=batch.types,
            vectors=batch.vectors,
            of_examples=True,
        )

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        return self.score_loss(self.scores(head, hidden, prepared), prepared, training)

    def check(self, model: Model) -> None:
        super().check(model)
        assert isinstance(model.head, Classification)
        if model.head.classes != self.labels.outputs:
            raise ConfigError(
                f"model.output has {model.head.classes} outputs, and the labels ask for "
                f'{self.labels.outputs}; leave classes out, which is then what the labels have ("labels").'
            )

    def flops(self, model: Model, prepared: Prepared) -> int:
        head = model.head.flops(1)
        if prepared.features is not None:
            return 3 * head * prepared.count
        return super().flops(model, prepared) + 3 * head * (prepared.count - 1)


def summed(each: Tensor, plain: Tensor | None = None, count: int | None = None) -> LossSum:
    """A loss out of those of each example (B), of `count` targets where an example has several; `plain` are
    those to report, where training adds to them."""
    denominator = torch.tensor(len(each) if count is None else count, device=each.device)
    total = each.sum()
    penalty = None if plain is None else (total - plain.sum()).detach()
    return LossSum(total, denominator, each=None if each.requires_grad else each, penalty=penalty)
