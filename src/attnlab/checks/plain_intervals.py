"""How wide an interval should be: by drawing the examples again, or leaving each of them out, and of shares
by their own definition. Nothing of `metrics/` is used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.plain_metrics import NUMBERS, PlainMetric, Said, correlation

Sums = NDArray[np.float64]
Interval = tuple[float, float]
DRAWS = 1000
UNITS = 2000
"""Examples, or groups of them where there are more, that are drawn."""
LEVEL = 0.95


def expected_intervals(plain: PlainMetric, said: Said) -> Iterator[Interval | None]:
    """The intervals that a metric of these examples may have, None where it should have none: by drawing the
    examples again; then, since of few of them that tells little, by leaving out each."""
    units, weights = drawn_units(plain, said)
    if plain.interval == "share" and len(weights) == len(said):
        yield share_interval(float(units.parts[:, 0].sum()), len(said))
        return
    freedom = max(1.0, weights.sum() ** 2 / max((weights**2).sum(), 1e-300) - 1)
    for error in (units.drawn_error, units.left_out_error):
        with np.errstate(all="ignore"):
            half, value = quantile_of_t(freedom) * error(), plain.of_parts(units.parts)
        if (weights > 0).sum() < 2 or not half:
            yield None
        elif plain.interval == "log":
            yield value * math.exp(-half), value * math.exp(half)
        else:
            yield value - half, value + half


def drawn_units(plain: PlainMetric, said: Said) -> tuple[Units, Sums]:
    """What is drawn of examples (n), and how much each unit counts."""
    parts = plain.parts(said)
    weights = weights_of(plain, parts)
    column = said.columns.get("cluster", np.arange(len(said)))
    unit = {key: number for number, key in enumerate(dict.fromkeys(column.tolist()))}
    if len(unit) < len(said):
        parts, weights = by_cluster(parts, column), by_cluster(weights[:, None], column)[:, 0]
    return Units(plain, said, parts, np.array([unit[key] for key in column.tolist()])), weights


def weights_of(plain: PlainMetric, parts: Sums) -> Sums:
    """(n) how much each example counts."""
    return np.ones(len(parts)) if plain.weight is None else parts[:, plain.weight]


def by_cluster(parts: Sums, cluster: NDArray[np.int64]) -> Sums:
    """The sums of the examples that belong together."""
    sums: dict[int, Sums] = {}
    for key, row in zip(cluster.tolist(), parts, strict=True):
        sums[key] = sums[key] + row if key in sums else row
    return np.array(list(sums.values()))


@dataclass(frozen=True)
class Units:
    """What is drawn or left out: examples, clusters of them, or of many a group at a time."""

    plain: PlainMetric
    said: Said
    parts: Sums
    """(units, k) what each adds."""
    unit: NDArray[np.int64]
    """(n) the unit of each example."""

    def drawn_error(self) -> float:
        """The deviation of the value over units drawn again, as many as there are."""
        size = min(len(self.parts), UNITS)
        counts = drawn_counts(size)
        # the deviation of a mean over n draws is too small by this: of two it is 0.7 of the true one
        return float(np.nanstd(self.values(counts), ddof=1)) * math.sqrt(size / max(1, size - 1)) * self.scale

    def left_out_error(self) -> float:
        """The same by leaving out each unit once: √((n − 1) · the variance of what is left)."""
        size = min(len(self.parts), UNITS)
        values = self.values(1 - np.eye(size))
        return float(np.nanstd(values)) * math.sqrt(max(0, size - 1)) * self.scale

    @property
    def scale(self) -> float:
        """Of ranks, some examples are asked in place of all: the error of all is smaller by this."""
        return math.sqrt(min(1.0, UNITS / len(self.parts))) if self.plain.interval == "ranks" else 1.0

    def values(self, counts: Sums) -> Sums:
        """(d) the value where each unit is there as often as (d, units) says."""
        order = np.random.default_rng(1).permutation(len(self.parts))
        if self.plain.interval == "ranks":
            place = {unit: place for place, unit in enumerate(order[:UNITS].tolist())}
            asked = [(n, place[unit]) for n, unit in enumerate(self.unit.tolist()) if unit in place]
            rows, places = map(list, zip(*asked, strict=True))
            x, y = (self.said[name][rows] for name in NUMBERS)
            return rank_correlations(counts[:, places], x, y)
        parts = self.parts
        if len(parts) > UNITS:
            grouped = np.zeros((UNITS, parts.shape[1]))
            np.add.at(grouped, order % UNITS, parts)
            parts = grouped
        values = self.plain.value(counts @ parts)
        return np.log(values) if self.plain.interval == "log" else values


@lru_cache(maxsize=2)  # the metrics of an evaluation have the same examples
def drawn_counts(size: int) -> Sums:
    """(DRAWS, size) how often each unit is drawn, as many as there are, always the same."""
    drawn = np.random.default_rng(0).integers(size, size=(DRAWS, size))
    places = (drawn + np.arange(DRAWS)[:, None] * size).ravel()
    return np.bincount(places, minlength=DRAWS * size).reshape(DRAWS, size).astype(np.float64)


def rank_correlations(counts: Sums, x: Sums, y: Sums) -> Sums:
    """(d) the correlation of ranks where each example is there (d, n) times, equal numbers in the middle of
    their ranks."""
    columns = []
    for numbers in (x, y):
        kinds, kind = np.unique(numbers, return_inverse=True)
        many = np.zeros((len(counts), len(kinds)))
        np.add.at(many.T, kind, counts.T)
        columns.append((np.cumsum(many, 1) - many / 2)[:, kind])
    middle = counts.sum(1, keepdims=True) / 2
    u, v = (column - middle for column in columns)
    products = [u, v, u * u, v * v, u * v, np.ones_like(u)]
    return correlation(np.stack([(counts * product).sum(1) for product in products], -1))


def share_interval(right: float, n: int) -> Interval:
    """The shares from which the one that was seen is not further than chance allows, found by halving."""
    seen, reach = right / n, NormalDist().inv_cdf((1 + LEVEL) / 2)

    def too_far(share: float) -> bool:
        return abs(seen - share) > reach * math.sqrt(share * (1 - share) / n)

    ends = []
    for outside in (0.0, 1.0):
        inside = seen
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if too_far(middle) else (middle, outside)
        ends.append(inside)
    return ends[0], ends[1]


def quantile_of_t(freedom: float) -> float:
    """The deviations to either side that hold 95% of Student's distribution, by the beta distribution of
    freedom / (freedom + t²)."""
    from scipy.special import betaincinv  # takes a while to import

    inside = float(betaincinv(freedom / 2, 0.5, 1 - LEVEL))
    return math.sqrt(freedom * (1 / inside - 1))


def interval_gap(
    claimed: Interval | None, expected: Interval | None, *, value: float, limits: tuple[float, float]
) -> float:
    """How far the ends of two intervals are apart, as a share of the expected distance from the value; ends
    that a limit cuts off are not compared."""
    if claimed is None or expected is None:
        return 0.0 if claimed is expected else math.inf
    gaps = [0.0]
    for end, wanted in zip(claimed, expected, strict=True):
        if limits[0] < wanted < limits[1]:
            gap = abs(end - wanted) / max(abs(wanted - value), 1e-300)
            gaps.append(gap if math.isfinite(gap) else math.inf)
    return max(gaps)
