"""The text that belongs to a text, found among others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.data.example import Example
from attnlab.data.labels import Labels
from attnlab.metrics.metric import Examples
from attnlab.targets.report import WRONG, Mistake, PredictingTask, TargetReport, shown
from attnlab.targets.target import Row, Target, entropy


class PairTarget(Target):
    """The second text of an example, among those of its batch. Cosines are divided by the temperature."""

    name = "pair"
    compares_batch = True

    def __init__(self, temperature: float = 1.0, symmetric: bool = False):
        self.temperature, self.symmetric = temperature, symmetric

    def summary(self, labels: Iterable[Any]) -> Labels:
        return Labels(self.name, examples=sum(label is not None for label in labels))

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        """−log softmax of its own among the cosines (B) with all second texts, equal ones left out; where it
        is symmetric, the mean of that and of its second text's own among the cosines with all first ones."""
        line, keys = int(row["line"]), row["targets"].tolist()
        among = [n for n, key in enumerate(keys) if n == line or key != keys[line]]
        sides = [scores, row["from_second"]] if self.symmetric else [scores]
        nats = [
            (side[among] / self.temperature).logsumexp(0) - side[line] / self.temperature for side in sides
        ]
        return torch.stack(nats).mean()

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        return entropy(given, targets.tolist())

    def report(self, task: PredictingTask, texts: Sequence[Example], examples: Examples) -> TargetReport:
        """The texts whose own second one has the worst ranks."""
        rank = examples["rank"]
        order = [int(n) for n in np.argsort(-rank, kind="stable")[:WRONG] if rank[n] > 1]
        wrong = [(texts[n], f"rank {rank[n]:,}") for n in order]
        return TargetReport(
            mistakes=tuple(Mistake(t.place, shown(t), "rank 1", answer) for t, answer in wrong)
        )

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        return "its second text"
