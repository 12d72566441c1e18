from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.example import Example
from attnlab.data.labels import LabelReader, Labels, classes_of
from attnlab.model.heads.head import Head
from attnlab.model.losses import LossSum
from attnlab.targets import TARGETS
from attnlab.tasks.labelled import Labelled, summed
from attnlab.tasks.task import ExampleColumns, Prediction, Prepared
from attnlab.tasks.vocabulary import Vocabulary


class Multilabel(Labelled):
    """Multilabel: each text has any number of labels, each decided by itself.

    Formula: Σ_labels −log σ(±score): a yes or no for every label. A label is predicted where its chance is
    above one half. In a table the labels of a row are parted by `separator`; in .jsonl and .parquet they
    may be a list, which may be empty.

    Cost: like `classification`.

    When it helps: topics, tags and other labels that do not exclude each other.

    Paper: Nam et al. 2014, "Large-scale Multi-label Text Classification".
    """

    target = TARGETS["classes"]
    metrics = ("micro_f1", "exact_sets", "loss")

    def __init__(self, vocabulary: Vocabulary, labels: Labels, *, separator: str = ","):
        super().__init__(vocabulary, labels)
        if not separator:
            raise ConfigError('task.separator is empty; give the sign between two labels, such as ",".')
        self.separator = separator

    def label_of(self, example: Example) -> tuple[str, ...]:
        return classes_of(example, self.separator)

    @property
    def reader(self) -> LabelReader:
        reader = super().reader
        return LabelReader(reader.form, reader.read, f"{reader.identity} {self.separator}")

    def blind_loss(self, prepared: Prepared) -> float:
        return self.labels.outputs * math.log(2)

    def targets(self, batch: Batch) -> Tensor | None:
        return batch.labels

    def truth(self, prepared: Prepared) -> ExampleColumns:
        return {"labels": prepared.targets.bool()}

    def score_loss(self, scores: Tensor, prepared: Prepared, training: bool) -> LossSum:
        wanted = prepared.targets.to(scores.dtype)
        return summed(F.binary_cross_entropy_with_logits(scores, wanted, reduction="none").sum(-1))

    def head_outputs(self, head: Head, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        return {"chances": self.scores(head, hidden, prepared).sigmoid()}

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        predictions = []
        for row in columns["chances"].tolist():
            scores = dict(zip(self.labels.names, row, strict=True))
            chosen = tuple(name for name, chance in scores.items() if chance > 0.5)
            all_right = math.prod(max(chance, 1 - chance) for chance in row)
            predictions.append(Prediction(answer=chosen, confidence=all_right, scores=scores))
        return predictions
