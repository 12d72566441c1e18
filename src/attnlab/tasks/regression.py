from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from attnlab.data.batch import Batch
from attnlab.data.example import Example
from attnlab.data.labels import number_of
from attnlab.model.heads.head import Head
from attnlab.model.losses import LossSum
from attnlab.targets import TARGETS
from attnlab.tasks.labelled import Labelled, summed
from attnlab.tasks.task import ExampleColumns, Prediction, Prepared


class Regression(Labelled):
    """Regression: each text, or pair of texts, has a number.

    Formula: (score − z)², where z = (number − mean) / deviation over the training split: a model that knows
    nothing loses 1, whatever the unit. Predictions are in the unit of the numbers.

    Cost: like `classification`, with one output.

    When it helps: grades, prices, degrees of similarity. Judge it by R², which is 0 for always saying the
    mean.
    """

    target = TARGETS["number"]
    metrics = ("mean_squared_error", "mean_absolute_error", "explained_variance", "loss")

    def label_of(self, example: Example) -> float:
        return number_of(example)

    def blind_loss(self, prepared: Prepared) -> float:
        return float(prepared.targets.square().mean())

    def targets(self, batch: Batch) -> Tensor | None:
        if batch.number is None:
            return None
        standard = (batch.number - self.labels.mean) / self.labels.deviation
        return standard.float()  # some devices have no double

    def truth(self, prepared: Prepared) -> ExampleColumns:
        return {"number": self.in_unit(prepared.targets)}

    def score_loss(self, scores: Tensor, prepared: Prepared, training: bool) -> LossSum:
        return summed((scores[:, 0] - prepared.targets.to(scores.dtype)).square())

    def head_outputs(self, head: Head, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        return {"predicted_number": self.in_unit(self.scores(head, hidden, prepared)[:, 0])}

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        return [Prediction(answer=float(number)) for number in columns["predicted_number"].tolist()]

    def in_unit(self, standard: Tensor) -> Tensor:
        """Numbers of mean 0 and deviation 1 in the unit of the labels; in double: float32 has 7 digits."""
        return standard.cpu().double() * self.labels.deviation + self.labels.mean
