"""How good a predicted number is."""

from __future__ import annotations

import math

import numpy as np

from attnlab.metrics.metric import Examples, Floats, Mean, Metric, ratio


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
