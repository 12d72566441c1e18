"""How high the right passage stands among all."""

from __future__ import annotations

import numpy as np

from attnlab.metrics.metric import Estimate, Examples, Floats, Mean, wilson


class RecallAt1(Mean):
    """Recall@1: the share of queries whose own passage is the nearest of all.

    Formula: Σ [rank ≤ 1] / n, with Wilson's interval; rank is 1 + the number of other texts that score at
    least as high, so that ties count against the model.
    """

    better = "higher"
    limits = (0.0, 1.0)
    needs = ("rank",)
    depth = 1

    def each(self, examples: Examples) -> Floats:
        return (examples["rank"] <= self.depth).astype(np.float64)

    def interval(self, examples: Examples, level: float = 0.95) -> Estimate:
        n = len(examples)
        if not n:
            return super().interval(examples, level)
        low, high = wilson(float(self.each(examples).sum()), n, level)
        return Estimate(self.value(examples), low, high, n, level)


class RecallAt10(RecallAt1):
    """Recall@10: the share of queries whose own passage is among the ten nearest.

    Formula: Σ [rank ≤ 10] / n, with Wilson's interval; ranks as in recall@1.
    """

    depth = 10


class ReciprocalRank(Mean):
    """Mean reciprocal rank (MRR): the mean of 1 / rank of a query's own passage.

    Formula: Σ 1/rank / n; ranks as in recall@1.

    Paper: Voorhees 1999, "The TREC-8 Question Answering Track Report".
    """

    better = "higher"
    limits = (0.0, 1.0)
    needs = ("rank",)

    def each(self, examples: Examples) -> Floats:
        return 1 / examples["rank"].astype(np.float64)
