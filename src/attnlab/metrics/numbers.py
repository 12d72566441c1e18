"""How good a predicted number is."""

from __future__ import annotations

import math

import numpy as np

from attnlab.metrics.metric import CLUSTER, Examples, Floats, Mean, Metric, at_first, ratio, summed_by


class MeanSquaredError(Mean):
    """Mean squared error: the mean of (predicted − true)²."""

    better = "lower"
    limits = (0.0, math.inf)
    needs = ("number", "predicted_number")

    def each(self, examples: Examples) -> Floats:
        return (examples["predicted_number"] - examples["number"]).astype(np.float64) ** 2


class MeanAbsoluteError(MeanSquaredError):
    """Mean absolute error: the mean of |predicted − true|, in the unit of the number."""

    def each(self, examples: Examples) -> Floats:
        return np.abs(examples["predicted_number"] - examples["number"]).astype(np.float64)


class ExplainedVariance(Metric):
    """Explained variance (R²): 1 − squared error / variance of the true numbers; 0 for their mean, always.

    Formula: 1 − Σ(predicted − true)² / Σ(true − mean of true)².
    """

    better = "higher"
    limits = (-math.inf, 1.0)
    needs = ("number", "predicted_number")

    def parts(self, examples: Examples) -> Floats:
        true = examples["number"].astype(np.float64)
        true = true - true.mean()  # the variance of numbers far from 0 is lost to rounding otherwise
        gap = (examples["predicted_number"] - examples["number"]).astype(np.float64)
        return np.stack([gap**2, true**2, true, np.ones(len(true))], 1)

    def of(self, sums: Floats) -> Floats:
        variance = sums[..., 1] - ratio(sums[..., 2] ** 2, sums[..., 3])
        return 1 - ratio(sums[..., 0], variance)


AT_ONCE = 256
"""Examples that are left out at a time."""


class Pearson(Metric):
    """Pearson's correlation: how near predicted and true numbers are to one straight line.

    Formula: cov(predicted, true) / (deviation of predicted · deviation of true); none where one is constant.
    """

    better = "higher"
    limits = (-1.0, 1.0)
    needs = ("number", "predicted_number")

    def parts(self, examples: Examples) -> Floats:
        return products(*numbers_of(examples))

    def of(self, sums: Floats) -> Floats:
        x, y, xx, yy, xy, n = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
        spread = np.maximum(xx - ratio(x * x, n), 0) * np.maximum(yy - ratio(y * y, n), 0)
        return ratio(xy - ratio(x * y, n), np.sqrt(spread))


class Spearman(Pearson):
    """Spearman's correlation: how far predicted and true numbers agree on the order of the examples.

    Formula: Pearson's correlation of their ranks, equal numbers sharing the mean of theirs. The usual score
    of graded pairs. Without an example the others are ranked anew.

    Paper: Cer et al. 2017, "SemEval-2017 Task 1: Semantic Textual Similarity".
    """

    def parts(self, examples: Examples) -> Floats:
        return products(*(mean_ranks(one) for one in numbers_of(examples)))

    def influences(self, examples: Examples) -> Floats:
        x, y = numbers_of(examples)
        n = len(x)
        without = np.concatenate([self._without(x, y, slice(k, k + AT_ONCE)) for k in range(0, n, AT_ONCE)])
        influences: Floats = math.sqrt((n - 1) / n) * (without.mean() - without)
        if CLUSTER not in examples:
            return influences
        return at_first(examples[CLUSTER], lambda cluster: summed_by(cluster, influences))

    def _without(self, x: Floats, y: Floats, left_out: slice) -> Floats:
        """(m) the value without each of some examples: those that were above it move down by one."""
        ranks = [
            mean_ranks(one) - (one > one[left_out, None]) - 0.5 * (one == one[left_out, None])
            for one in (x, y)
        ]
        own = np.arange(len(x))[left_out]
        parts = products(*ranks)
        parts[np.arange(len(own)), own] = 0.0
        return self.of(parts.sum(1))


def mean_ranks(numbers: Floats) -> Floats:
    """(n) from 1; equal numbers share the mean of theirs."""
    from scipy.stats import rankdata  # slow to import, and every study asks each metric for its card

    ranks: Floats = rankdata(numbers)
    return ranks


def numbers_of(examples: Examples) -> tuple[Floats, Floats]:
    """Predicted and true numbers, each around its mean: products of large numbers lose digits."""
    x, y = (examples[name].astype(np.float64) for name in ("predicted_number", "number"))
    return x - x.mean(), y - y.mean()


def products(x: Floats, y: Floats) -> Floats:
    """(…, 6) what each example adds to the sums that a correlation is made of."""
    return np.stack([x, y, x * x, y * y, x * y, np.ones(np.shape(x))], -1)
