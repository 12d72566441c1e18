"""How far a difference between two arms strays by chance, and what that chance could hide.

The model: the difference of seed s, measured on n texts, is

    D_s = δ + a_s + mean over texts (b_d + c_sd)

δ is what is asked for; a_s is the luck of a seed (both arms have the same, so it is what the change
makes of it), b_d how much a text favours one arm whatever the seed, c_sd the rest. Seeds and texts
are crossed: all seeds meet the same texts, so more seeds do not make b_d smaller, and more texts do
not make a_s smaller. The mean over S seeds varies by

    a²/S + c²/Sn   seen from seed to seed: the paired t over seeds, S − 1 degrees of freedom
    b²/n           seen from text to text in the mean over seeds, less what c puts there

and the interval joins each source's own t interval: half² = (t_{S−1}·SE_seeds)² + (t_texts·SE_texts)².
It does not resample: with five seeds a percentile bootstrap covers 85% where it claims 95%, and
one pooled t (Satterthwaite) falls to 87% with two. This one covers 94 to 97% with five seeds or
more, up to 99% with two or three (tests/evaluation/test_coverage.py); without texts it is the
paired t test itself. Texts are taken as independent of each other: sentences of one book are less.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, special

from attnlab.metrics import METRICS
from attnlab.metrics.metric import Floats, freedom_of, t_reach

if TYPE_CHECKING:
    from attnlab.evaluation.documents import DocumentLosses

Numbers = float | Floats
LEAST_P = 1e-15
"""A p-value below this is not told apart from it."""


@dataclass(frozen=True)
class Spread:
    """Of a difference between two arms: `seeds`, its standard deviation from seed to seed; `texts`, its
    standard error by the choice of texts, with the degrees of `freedom` that so many texts leave.

    `count` below is the number of seeds, `level` the share of intervals that are to hold the truth.
    """

    seeds: float
    texts: float = 0.0
    freedom: float = math.inf

    def half_width(self, count: int, level: float) -> float:
        """Half of the interval; unknown (nan) with one seed, or where nothing varies."""
        return self._half_width(count, 1 - level) if self.tells(count) else math.nan

    def p(self, difference: float, count: int) -> float:
        """The level at which the interval just reaches 0: how often chance alone gives this much."""
        size = abs(difference)
        if count < 2:
            return math.nan
        if size == 0:
            return 1.0
        if not self.tells(count):
            return 2.0 ** (1 - count)  # no spread to judge by: how often all seeds agree on a side by chance
        if not self.texts:
            return float(2 * special.stdtr(count - 1, -size / self.seeds * math.sqrt(count)))
        if self._half_width(count, LEAST_P) <= size:
            return LEAST_P
        reached = optimize.brentq(
            lambda log_p: self._half_width(count, math.exp(log_p)) - size, math.log(LEAST_P), 0.0
        )
        return math.exp(reached)

    def power(self, difference: float, count: int, level: float) -> float:
        """How often a true difference of this size is found, in studies with this spread."""
        drawn = variance_quantiles(count - 1)  # the seeds' variance as such studies happen to see it
        reach = half_width(self.seeds * np.sqrt(drawn), self.texts, self.freedom, count, 1 - level)
        error = math.hypot(self.seeds / math.sqrt(count), self.texts)
        chance = special.ndtr((difference - reach) / error) + special.ndtr((-reach - difference) / error)
        return float(chance.mean())

    def smallest(self, count: int, level: float, power: float) -> float:
        """The smallest true difference that is found this often; unknown (nan) where nothing varies."""
        if not self.tells(count):
            return math.nan
        enough = self._half_width(count, 1 - level)
        while self.power(enough, count, level) < power:
            enough *= 2
        return float(optimize.brentq(lambda size: self.power(size, count, level) - power, 0.0, enough))

    def tells(self, count: int) -> bool:
        """Whether there is a spread to judge by."""
        return count > 1 and bool(self.seeds or self.texts)

    def _half_width(self, count: int, missing: float) -> float:
        return float(half_width(self.seeds, self.texts, self.freedom, count, missing))


def half_width(seeds: Numbers, texts: Numbers, freedom: Numbers, count: int, missing: float) -> Floats:
    """Half of the interval that leaves out the truth in `missing` of studies, for any number of spreads."""
    of_seeds = t_reach(count - 1, missing) * seeds / math.sqrt(count)
    width: Floats = np.hypot(of_seeds, t_reach(freedom, missing) * texts)
    return width


@functools.cache
def variance_quantiles(freedom: int) -> Floats:
    """A variance of 1 as samples estimate it, at a thousand evenly spaced quantiles."""
    quantiles: Floats = special.chdtri(freedom, (np.arange(1000) + 0.5) / 1000) / freedom
    return quantiles


def error_over_texts(u: Floats) -> Floats:
    """(…) the standard error by the choice of texts of a mean over seeds, from influences (…, S, n).

    What is left of each text's influence beside its mean over seeds (c_sd) is in the seeds' spread
    already, and is taken off.
    """
    count, mean = u.shape[-2], u.mean(-2, keepdims=True)
    rest = ((u - mean) ** 2).sum((-2, -1)) / (count * (count - 1)) if count > 1 else 0.0
    error: Floats = np.sqrt(np.maximum(0.0, (mean**2).sum((-2, -1)) - rest))
    return error


def weights_of(all_documents: Sequence[DocumentLosses], metric: str) -> list[Floats]:
    """(n) how much each text counts in a metric, for each model's texts."""
    built = METRICS.build(metric)
    return [built.weights(documents.examples) for documents in all_documents]


def influences_of(all_documents: Sequence[DocumentLosses], metric: str) -> list[Floats]:
    """(n) the influences of its texts on a metric, for each model."""
    built = METRICS.build(metric)
    return [built.influences(documents.examples) for documents in all_documents]


def several_texts(weights: Sequence[Floats]) -> bool:
    """Whether there are texts to vary by: one says nothing of others."""
    return all((column > 0).sum() > 1 for column in weights)


def spread_between(
    differences: Floats, arm: Sequence[DocumentLosses], baseline: Sequence[DocumentLosses], metric: str
) -> Spread:
    """The spread of an arm's difference: from its values by seed (S), and from its texts where there are."""
    seeds = float(differences.std(ddof=1)) if len(differences) > 1 else math.nan
    weights = weights_of([*arm, *baseline], metric) if arm else []
    if not weights or not several_texts(weights):
        return Spread(seeds)
    pairs = zip(influences_of(arm, metric), influences_of(baseline, metric), strict=True)
    u = np.stack([a - b for a, b in pairs])
    return Spread(seeds, float(error_over_texts(u)), float(freedom_of(np.mean(weights, 0))))
