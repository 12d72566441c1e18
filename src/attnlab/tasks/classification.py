from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.config.ranges import BelowOne
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.example import Example
from attnlab.data.labels import Labels, class_of
from attnlab.model.heads.head import Head
from attnlab.model.losses import LossSum
from attnlab.targets import TARGETS
from attnlab.tasks.labelled import Labelled, summed
from attnlab.tasks.task import ExampleColumns, Prediction, Prepared
from attnlab.tasks.vocabulary import Vocabulary


class Classification(Labelled):
    """Classification: each text, or pair of texts, has one of several classes.

    Formula: −log softmax(scores)[class]. In training, `smoothing` ε mixes each target with the uniform
    distribution, and `class_weights=balanced` weighs each example by n / (C·n_class), so that rare classes
    count as much as frequent ones. What is reported is the plain cross-entropy.

    Cost: one vector a text is scored, so the head costs next to nothing.

    When it helps: sentiment, topic, entailment (data.encoding = "pair"). Judge it by accuracy compared with
    the share of the most frequent class; under `balanced` weights by macro F1, and expect its probabilities
    not to be calibrated.

    Paper: Devlin et al. 2018, "BERT"; Szegedy et al. 2015 (label smoothing).
    """

    target = TARGETS["class"]
    metrics = ("accuracy", "macro_f1", "matthews", "calibration_error", "loss")

    def __init__(
        self,
        vocabulary: Vocabulary,
        labels: Labels,
        *,
        smoothing: BelowOne = 0.0,
        class_weights: Literal["none", "balanced"] = "none",
    ):
        super().__init__(vocabulary, labels)
        if not 0 <= smoothing < 1:
            raise ConfigError(f"task.smoothing is {smoothing}; it must be at least 0 and below 1.")
        self.smoothing = smoothing
        counts = torch.tensor(labels.counts, dtype=torch.float64)
        balanced = counts.sum() / (len(counts) * counts)
        self.weights = balanced.tolist() if class_weights == "balanced" else None

    def label_of(self, example: Example) -> str:
        return class_of(example)

    def blind_loss(self, prepared: Prepared) -> float:
        return math.log(self.labels.outputs)

    def targets(self, batch: Batch) -> Tensor | None:
        return batch.label

    def truth(self, prepared: Prepared) -> ExampleColumns:
        return {"label": prepared.targets}

    def score_loss(self, scores: Tensor, prepared: Prepared, training: bool) -> LossSum:
        plain = F.cross_entropy(scores, prepared.targets, reduction="none")
        if not training or not (self.smoothing or self.weights):
            return summed(plain)
        taught = F.cross_entropy(scores, prepared.targets, reduction="none", label_smoothing=self.smoothing)
        if self.weights:
            taught = taught * scores.new_tensor(self.weights)[prepared.targets]
        return summed(taught, plain)

    def head_outputs(self, head: Head, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        return {"probabilities": self.scores(head, hidden, prepared).softmax(-1)}

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        names = self.labels.names
        predictions = []
        for row in columns["probabilities"].tolist():
            best = max(range(len(row)), key=row.__getitem__)
            scores = dict(zip(names, row, strict=True))
            predictions.append(Prediction(answer=names[best], confidence=row[best], scores=scores))
        return predictions
