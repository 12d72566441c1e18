"""A number for each text, or for how alike two texts are."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from attnlab.data.errors import DataError
from attnlab.data.labels import Labels
from attnlab.targets.target import Row, Target


class NumberTarget(Target):
    """A number."""

    name = "number"

    def summary(self, labels: Iterable[Any]) -> Labels:
        values = [float(label) for label in labels]
        mean = math.fsum(values) / max(1, len(values))
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(1, len(values)))
        return Labels(self.name, examples=len(values), mean=mean, deviation=spread)

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        return {"number": float(label)}

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        if labels.deviation == 0:
            raise DataError(
                f"All {labels.examples:,} rows of the training split have the number {labels.mean:g}; there "
                "is nothing to learn. Name another column with data.corpus.label."
            )

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        return (scores[0] - row["targets"]) ** 2

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        """The variance of the numbers of rows of which the same is given."""
        groups: dict[Hashable, list[float]] = {}
        for context, number in zip(given, targets.tolist(), strict=True):
            groups.setdefault(context, []).append(number)
        spreads = ((value - sum(held) / len(held)) ** 2 for held in groups.values() for value in held)
        return sum(spreads) / len(given)

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        return float(truth["number"])
