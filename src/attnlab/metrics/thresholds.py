"""A threshold on a score above which an answer is given: the best one, cross-fitted ones, and the curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.metrics.metric import Floats

FOLDS = 5
EQUAL = 1e-9
"""Sums of scores that differ by rounding alone."""


@dataclass(frozen=True)
class ThresholdCurve:
    """What every threshold gives that tells any two examples apart, from "always" to "never": thresholds,
    how many examples are above each, and the sum of the scores (all k + 1, for k different margins)."""

    thresholds: Floats
    answered: NDArray[np.int64]
    sums: Floats

    @property
    def best(self) -> float:
        """The threshold with the largest sum; of equal ones the nearest to 0, where an answer is as likely as
        none."""
        equal = self.thresholds[self.sums >= self.sums.max() - EQUAL]
        return float(equal[np.abs(equal).argmin()])


def curve(margin: Floats, answer: Floats, silent: Floats) -> ThresholdCurve:
    """Of n examples: the margin of each, its score if it is answered, and its score if it is not.

    An example whose margin is −∞ has nothing to answer with. A threshold lies in the middle between two
    margins, or 1 beyond all of them.
    """
    can = np.isfinite(margin)
    order = np.argsort(margin[can], kind="stable")
    margins = margin[can][order]
    gain = (answer - silent)[can][order]
    last = np.flatnonzero(np.append(np.diff(margins) > 0, True)) if len(margins) else np.zeros(0, np.int64)
    given_up = np.append(0.0, np.cumsum(gain)[last])
    values = margins[last]
    middles = (values[1:] + values[:-1]) / 2
    ends = (values[0] - 1, values[-1] + 1) if len(values) else (0.0, 0.0)
    thresholds = np.concatenate([ends[:1], middles, ends[1:]]) if len(values) else np.zeros(1)
    above = len(margins) - np.append(0, last + 1)
    return ThresholdCurve(thresholds, above.astype(np.int64), silent.sum() + gain.sum() - given_up)


def cross_fitted(margin: Floats, answer: Floats, silent: Floats, fold: NDArray[np.int64]) -> Floats:
    """(n) the threshold of each example: the best one for the examples of all other folds; 0 without any."""
    thresholds = np.zeros(len(margin))
    for number in np.unique(fold):
        others = fold != number
        if others.any():
            thresholds[~others] = curve(margin[others], answer[others], silent[others]).best
    return thresholds


def folds(keys: Sequence[str], order: Sequence[float], count: int = FOLDS) -> NDArray[np.int64]:
    """(n) the fold of each example; those of one key are in one fold. `order` is a number for each key that
    has nothing to do with the examples' scores."""
    place = dict(zip(keys, order, strict=True))
    rank = {key: number for number, key in enumerate(sorted(place, key=lambda key: (place[key], key)))}
    return np.array([rank[key] % count for key in keys], np.int64)
