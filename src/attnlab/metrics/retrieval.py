"""How high the right passage stands among all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.metrics.metric import Examples, Floats, Mean, ShareOfExamples

AT_ONCE = 256
"""Queries that are scored at a time."""

ScoresOf = Callable[[slice], NDArray[Any]]
"""The scores (queries, passages) of some of the queries."""


class RecallAt1(ShareOfExamples):
    """Recall@1: the share of queries whose own passage is the nearest of all.

    Formula: Σ [rank ≤ 1] / n, with Wilson's interval, or the jackknife's where queries share a passage; rank
    is 1 + the number of other texts that score at least as high, so that ties count against the model.
    """

    needs = ("rank",)
    depth = 1

    def each(self, examples: Examples) -> Floats:
        return (examples["rank"] <= self.depth).astype(np.float64)


class RecallAt10(RecallAt1):
    """Recall@10: the share of queries whose own passage is among the ten nearest.

    Formula: Σ [rank ≤ 10] / n; interval and ranks as in recall@1.
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


def ranks(scores_of: ScoresOf, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n) the rank of each query's own passage: 1 + how many others score at least as high."""
    ranks_of_own = np.empty(len(own), np.int64)
    for first in range(0, len(own), AT_ONCE):
        some = slice(first, min(first + AT_ONCE, len(own)))
        scores = scores_of(some)
        right = scores[np.arange(len(scores)), own[some]]
        # not a number is as high as it gets: a model that gives none finds nothing
        ranks_of_own[some] = (~(scores < right[:, None])).sum(1)
    return ranks_of_own
