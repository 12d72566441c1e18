"""What predicted words cost."""

from __future__ import annotations

import math

import numpy as np

from attnlab.metrics.metric import Estimate, Examples, Floats, Metric, ratio

MOST = 700.0
"""Nats whose exponential is still a number."""


class Loss(Metric):
    """Loss: nats per target, over all targets.

    Formula: Σ −log p(target) / number of targets. A loss of several parts is their sum.
    """

    better = "lower"
    needs = ("nats", "targets")
    limits = (0.0, math.inf)

    def parts(self, examples: Examples) -> Floats:
        return np.stack([examples["nats"], examples["targets"]], 1).astype(np.float64)

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])

    def weights(self, examples: Examples) -> Floats:
        return examples["targets"].astype(np.float64)


class Perplexity(Loss):
    """Perplexity: e^(nats per word), over all words; not a mean of texts' perplexities.

    Formula: exp(Σ −log p(word) / number of words), of the predicted words alone where the loss has other
    parts.
    """

    needs = ("words", "targets")
    limits = (1.0, math.inf)

    def parts(self, examples: Examples) -> Floats:
        return np.stack([examples["words"], examples["targets"]], 1).astype(np.float64)

    def of(self, sums: Floats) -> Floats:
        values: Floats = np.exp(np.minimum(super().of(sums), MOST))
        return values

    def interval(self, examples: Examples, level: float = 0.95) -> Estimate:
        """That of the words' loss, exponentiated: a loss is nearer to a normal distribution."""
        words = Examples({"nats": examples["words"], "targets": examples["targets"]})
        loss = Loss().interval(words, level)
        low, high = (math.exp(min(end, MOST)) for end in (loss.low, loss.high))
        return Estimate(self.value(examples), low, high, loss.n, level)


class BitsPerByte(Metric):
    """Bits per byte: bits for each byte of UTF-8 text; comparable across tokenizers.

    Formula: Σ −log₂ p(word) / bytes of the text that was predicted. Not comparable where words are unknown:
    their bytes count, their spelling is free.
    """

    better = "lower"
    needs = ("words", "bytes")
    limits = (0.0, math.inf)

    def parts(self, examples: Examples) -> Floats:
        return np.stack([examples["words"], examples["bytes"]], 1).astype(np.float64)

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1]) / math.log(2)

    def weights(self, examples: Examples) -> Floats:
        return examples["bytes"].astype(np.float64)
