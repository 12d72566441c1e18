"""The contract of a metric, and the uncertainty that all of them share.

A metric is a function of sums over examples: of nats and targets, of right answers and answers, of the cells
of a confusion matrix. So the value without any one example is at hand, and with it the jackknife: intervals
and paired comparisons are the same for a loss, an accuracy or an F1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CLUSTER = "cluster"
"""The column that numbers examples which are not independent, such as queries about one passage: intervals
leave out all of a cluster at once. Without it every example is one of its own."""


OF_TEXTS = ("generated", "reference")
"""Columns of text: what a model wrote of each example, and what was to be, once or in several ways."""


@dataclass(frozen=True)
class Examples:
    """What a model said of each example of a split: named columns, (n) or (n, k), in the split's own order.

    A text that has nothing to score keeps its place, so that the examples of two models are the same ones.
    """

    columns: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Columns of examples must be equally long, and are {lengths}.")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise KeyError(f"these examples have no column {name}, only {', '.join(self.columns)}")
        return self.columns[name]


@dataclass(frozen=True)
class Estimate:
    """A value over n examples, and the interval that holds the truth in `level` of such samples; nan where
    it is unknown."""

    value: float
    low: float
    high: float
    n: int
    level: float = 0.95

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high), where both are known."""
        return (self.low, self.high) if math.isfinite(self.low) else None

    def as_json(self) -> dict[str, Any]:
        """As results files hold it, at their usual level."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


def difference_records(
    differences: Mapping[str, Mapping[str, Estimate]], baseline: str
) -> list[dict[str, Any]]:
    """Differences by name and metric, as files hold them; None is what is not known."""
    return [
        {"metric": metric, "name": name, "baseline": baseline}
        | {key: value if math.isfinite(value) else None for key, value in estimate.as_json().items()}
        for name, estimates in differences.items()
        for metric, estimate in estimates.items()
    ]


class Metric(ABC):
    """One number of a model on a split. Its docstring is its card, whose first line is its definition."""

    better: ClassVar[Literal["lower", "higher"]]
    needs: ClassVar[tuple[str, ...]]
    """The columns of the examples that it is made of."""
    limits: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """The values that it can have: no interval goes beyond them."""
    share: ClassVar[bool] = False
    """Whether it counts examples out of all, and is read as a percentage, its differences in points."""

    @abstractmethod
    def parts(self, examples: Examples) -> Floats:
        """(n, k) what each example adds to the sums that the value is made of."""

    @abstractmethod
    def of(self, sums: Floats) -> Floats:
        """(…, k) sums -> (…) values; nan where there is nothing to divide by."""

    def weights(self, examples: Examples) -> Floats:
        """(n) how much each example counts; 0 for one that has nothing to score."""
        return np.ones(len(examples))

    def signature(self, examples: Examples) -> str:
        """With which package, version and settings the value was computed; nothing where the definition says
        it all."""
        return ""

    @classmethod
    def is_better(cls, one: float, other: float) -> bool:
        """Whether one value is on the better side of another; no number is on no side."""
        return one < other if cls.better == "lower" else one > other

    def applies(self, examples: Examples) -> bool:
        return all(name in examples for name in self.needs) and bool(self.weights(examples).any())

    def value(self, examples: Examples) -> float:
        return float(self.of(self.parts(examples).sum(0)))

    def influences(self, examples: Examples) -> Floats:
        """(n) what each example does to the value; the sum of squares is its variance over examples. What a
        cluster does stands at its first example, 0 at the others."""
        parts = self.parts(examples)
        if CLUSTER not in examples:
            return jackknife(parts, self.of)
        return at_first(examples[CLUSTER], lambda cluster: jackknife(summed_by(cluster, parts), self.of))

    def standard_error(self, examples: Examples) -> float:
        """How far the value is from that of all such examples, as a rule."""
        return float(np.sqrt((self.influences(examples) ** 2).sum()))

    def interval(self, examples: Examples, level: float = 0.95) -> Estimate:
        """The value with its interval over examples like these."""
        value, weights = self.value(examples), self.weights(examples)
        n = int((weights > 0).sum())
        if CLUSTER in examples:
            _, cluster = np.unique(examples[CLUSTER], return_inverse=True)
            weights = summed_by(cluster, weights)
        if (weights > 0).sum() < 2:
            return Estimate(value, math.nan, math.nan, n, level)
        half = t_reach(freedom_of(weights), 1 - level) * self.standard_error(examples)
        if half == 0:  # all examples are alike, such as all right: that says nothing of others
            return Estimate(value, math.nan, math.nan, n, level)
        least, most = self.limits
        return Estimate(value, max(value - half, least), min(value + half, most), n, level)

    def difference(self, one: Examples, other: Examples, level: float = 0.95) -> Estimate:
        """one − other of two models on the same examples, paired: what both find hard does not widen it."""
        n, value = len(one), self.value(one) - self.value(other)
        apart = len(np.unique(one[CLUSTER])) if CLUSTER in one else n
        spread = self.influences(one) - self.influences(other)
        half = t_reach(max(apart - 1, 1), 1 - level) * float(np.sqrt((spread**2).sum()))
        if n < 2 or half == 0:
            return Estimate(value, math.nan, math.nan, n, level)
        return Estimate(value, value - half, value + half, n, level)


def is_of_texts(metric: Metric | type[Metric]) -> bool:
    """Whether it reads what a model wrote."""
    return not {*OF_TEXTS}.isdisjoint(metric.needs)


class Mean(Metric):
    """A mean over examples."""

    @abstractmethod
    def each(self, examples: Examples) -> Floats:
        """(n) the number of each example."""

    def parts(self, examples: Examples) -> Floats:
        weights = self.weights(examples)
        return np.stack([self.each(examples) * weights, weights], 1)

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])


class ShareOfExamples(Mean):
    """A share of examples, of which each counts or does not: its interval is Wilson's, or the jackknife's
    where some examples are of one cluster."""

    better = "higher"
    limits = (0.0, 1.0)
    share = True

    def interval(self, examples: Examples, level: float = 0.95) -> Estimate:
        n = len(examples)
        if not n or (CLUSTER in examples and len(np.unique(examples[CLUSTER])) < n):
            return super().interval(examples, level)
        low, high = wilson(float(self.each(examples).sum()), n, level)
        return Estimate(self.value(examples), low, high, n, level)


def mean_of(
    function: Callable[[Examples], Floats], *, better: Literal["lower", "higher"], needs: tuple[str, ...]
) -> type[Mean]:
    """The metric that is the mean of what a function says of each example; its docstring defines it."""
    made: dict[str, Any] = {"better": better, "needs": needs, "__doc__": function.__doc__}
    made |= {"__module__": function.__module__, "__qualname__": function.__qualname__}
    return type(function.__name__, (Mean,), made | {"each": lambda self, examples: function(examples)})


def jackknife(parts: Floats, of: Callable[[Floats], Floats]) -> Floats:
    """(…, n, k) what each example adds -> (…, n) what it does to the value of the sums.

    Exact for what an example does, without random numbers, and to the wide side where a straight line through
    the value errs to the narrow.
    """
    n, without = parts.shape[-2], of(parts.sum(-2, keepdims=True) - parts)
    influences: Floats = math.sqrt((n - 1) / n) * (without.mean(-1, keepdims=True) - without)
    return influences


def at_first(column: NDArray[Any], of_clusters: Callable[[NDArray[np.int64]], Floats]) -> Floats:
    """(n) what clusters do, each at its first example: of their numbers (n) from 0, what each (c) does."""
    _, first, cluster = np.unique(column, return_index=True, return_inverse=True)
    influences = np.zeros(len(column))
    influences[first] = of_clusters(cluster)
    return influences


def summed_by(cluster: NDArray[np.int64], parts: Floats) -> Floats:
    """(n, …) what examples add -> (c, …) what clusters add, numbered from 0."""
    sums = np.zeros((int(cluster.max(initial=-1)) + 1, *parts.shape[1:]))
    np.add.at(sums, cluster, parts)
    return sums


def ratio(above: Floats, below: Floats) -> Floats:
    """above / below, nan where there is nothing to divide by."""
    quotient: Floats = np.divide(
        above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) != 0
    )
    return quotient


def t_reach(freedom: float | Floats, missing: float) -> Any:
    """How many standard errors to either side leave out `missing` of Student's distribution."""
    from scipy import special  # takes a while to import, and a language model's training does without

    return -special.stdtrit(freedom, missing / 2)


def freedom_of(weights: Floats) -> Any:
    """(…) degrees of freedom of examples of unequal weight: those of equal ones, as many as they come to."""
    return np.maximum(1.0, weights.sum(-1) ** 2 / (weights**2).sum(-1) - 1)


def wilson(right: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """The interval of a share, which stays between 0 and 1 and holds for few examples too."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, below = right / n, 1 + z**2 / n
    middle = (share + z**2 / (2 * n)) / below
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / below
    return middle - half, middle + half


def known(value: float) -> float | None:
    """A number for a record; nothing where it is unknown, since JSON knows no nan."""
    return value if math.isfinite(value) else None
