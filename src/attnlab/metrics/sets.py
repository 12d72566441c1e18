"""How good several labels for each example are."""

from __future__ import annotations

import numpy as np

from attnlab.metrics.metric import Examples, Floats, Mean, Metric, ratio


class ExactSets(Mean):
    """Exact sets: the share of examples all of whose labels are right, none missing and none too many."""

    better = "higher"
    limits = (0.0, 1.0)
    needs = ("labels", "chances")

    def each(self, examples: Examples) -> Floats:
        return (chosen(examples) == examples["labels"]).all(1).astype(np.float64)


class MicroF1(Metric):
    """Micro F1: the F1 of all single decisions, label by label.

    Formula: 2·tp / (2·tp + fp + fn) over all labels of all examples; a label is chosen above a chance of ½.
    """

    better = "higher"
    limits = (0.0, 1.0)
    needs = ("labels", "chances")

    def parts(self, examples: Examples) -> Floats:
        predicted, right = chosen(examples), examples["labels"].astype(bool)
        return np.stack([2 * (predicted & right).sum(1), predicted.sum(1) + right.sum(1)], 1).astype(
            np.float64
        )

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])


def chosen(examples: Examples) -> np.ndarray:
    """(n, C) the labels that are more likely than not."""
    return examples["chances"] > 0.5
