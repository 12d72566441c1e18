"""Means over seeds and differences of arms a second time: written out by seed, and over texts by drawing them
again or leaving each out. Nothing of `evaluation/` and `metrics/` is used to compute them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from attnlab.checks.plain_intervals import (
    UNITS,
    Sums,
    Units,
    drawn_counts,
    drawn_units,
    quantile_of_t,
)
from attnlab.checks.plain_metrics import PLAIN, PlainMetric, Said
from attnlab.evaluation.comparison import Comparison
from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.paired_results import SeedResult
from attnlab.metrics.metric import Estimate
from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.typed import Value

TENTH = 0.1
"""How far the ends of two intervals may be apart, as a share of half of the expected one."""
ROUNDING = 1e-6
Pairs = Sequence[tuple[SeedResult, SeedResult]]


# ---------------------------------------------------------------- the mean of an arm
def unconfirmed_mean(
    values: Sequence[float], claimed: Estimate, *, measure: str, arm: str, limits: tuple[float, float]
) -> Reason | None:
    """Why a mean over seeds, or its interval, is not that of these values; None where it is. Ends that are
    beyond what the measure can be are cut off at its `limits`."""
    logs = measure.endswith("perplexity")
    numbers = [math.log(value) for value in values] if logs else list(values)
    if not all(map(math.isfinite, numbers)):
        return None
    mean, half = mean_and_half(numbers)
    expected = [mean, mean - half, mean + half]
    if logs:
        expected = [math.exp(min(end, 700.0)) for end in expected]
    expected = [end if math.isnan(end) else min(max(end, limits[0]), limits[1]) for end in expected]
    said = claimed.value, claimed.low, claimed.high
    if agree(said, expected):
        return None
    about: dict[str, Value] = {"arm": arm, "metric": measure, "claimed": [*said], "expected": expected}
    return Reason(ReasonKind.UNCONFIRMED_MEAN, about)


def mean_and_half(numbers: Sequence[float]) -> tuple[float, float]:
    """The mean of some numbers, and half of its 95% interval by Student's t; nan for one number."""
    n = len(numbers)
    mean = math.fsum(numbers) / n
    if n == 1:
        return mean, math.nan
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (n - 1)
    return mean, quantile_of_t(n - 1) * math.sqrt(variance / n)


def agree(claimed: Sequence[float], expected: Sequence[float]) -> bool:
    """Whether value and ends are the same: the value to rounding, an end to a tenth of its distance."""
    value, *ends = expected
    near = abs(claimed[0] - value) <= ROUNDING * max(1.0, abs(value))
    for said, end in zip(claimed[1:], ends, strict=True):
        if math.isnan(said) or math.isnan(end):
            near = near and math.isnan(said) == math.isnan(end)
            continue
        room = TENTH * abs(end - value) + ROUNDING * max(1.0, abs(value))
        near = near and abs(said - end) <= room
    return near


# ---------------------------------------------------------------- the difference of two arms
def unconfirmed_difference(
    comparison: Comparison,
    arm: Sequence[SeedResult],
    baseline: Sequence[SeedResult],
    *,
    names: Sequence[str] = (),
) -> Reason | None:
    """Why a difference, its interval or its p-value is not that of these results; None where it is. `names`
    are those of classes or tags."""
    others = {result.seed: result for result in baseline}
    pairs = [(result, others[result.seed]) for result in arm]
    said = comparison.difference, comparison.low, comparison.high
    expected = (math.nan, math.nan, math.nan)
    for low, value, high in expected_differences(pairs, comparison, names):
        expected = value, low, high
        if agree(said, expected) and p_agrees(comparison):
            return None
    about: dict[str, Value] = {"arm": comparison.arm, "baseline": comparison.baseline}
    about |= {"metric": comparison.metric, "claimed": [*said], "expected": [*expected], "p": comparison.p}
    return Reason(ReasonKind.UNCONFIRMED_DIFFERENCE, about)


def expected_differences(
    pairs: Pairs, comparison: Comparison, names: Sequence[str]
) -> Iterator[tuple[float, float, float]]:
    """The intervals with their middle that a paired difference may have."""
    differences = [mine.value - theirs.value for mine, theirs in pairs]
    mean, of_seeds = mean_and_half(differences)
    if comparison.identical:
        yield mean, mean, mean
        return
    texts = list(text_halves(pairs, comparison.metric, names))
    if not texts and comparison.spread.texts:  # of a metric without a second definition
        yield comparison.low, mean, comparison.high
    for of_texts in texts or [0.0]:
        half = math.hypot(of_seeds, of_texts)
        half = half or math.nan  # nothing varies: nothing is known
        yield mean - half, mean, mean + half


def p_agrees(comparison: Comparison) -> bool:
    """Whether a p-value is below 5% exactly where the interval leaves out 0, but for rounding at its end."""
    ends = comparison.low, comparison.high
    if comparison.identical or not all(map(math.isfinite, ends)) or not math.isfinite(comparison.p):
        return True
    nearest = min(map(abs, ends)) / max(ends[1] - ends[0], 1e-300)
    outside = ends[0] > 0 or ends[1] < 0
    return nearest < 1e-3 or outside == (comparison.p < 1 - comparison.level)


def text_halves(pairs: Pairs, metric: str, names: Sequence[str]) -> Iterator[float]:
    """Half of the interval by the choice of texts: by drawing them again, then by leaving out each; nothing
    where the metric is not over texts, or has no plain definition."""
    plain, documents = PLAIN.get(metric), [side.documents for pair in pairs for side in pair]
    if plain is None or any(texts is None for texts in documents):
        return
    units = [units_of(plain, texts, names) for texts in documents if texts is not None]
    if any(each is None for each in units):
        return
    own = [each for each in units if each is not None]
    weights = np.mean([weight for _, weight in own], axis=0)
    if any((weight > 0).sum() < 2 for _, weight in own):
        return
    freedom = max(1.0, float(weights.sum() ** 2 / (weights**2).sum()) - 1)
    size, several = min(len(weights), UNITS), len(pairs) > 1
    for counts, factor in ((drawn_counts(size), size / (size - 1)), (1 - np.eye(size), size - 1.0)):
        values = [value_of(each, counts) for each, _ in own]
        by_seed = np.stack([mine - theirs for mine, theirs in zip(values[::2], values[1::2], strict=True)])
        variance = float(np.nanvar(by_seed.mean(0)))
        if several:  # what differs from seed to seed is in their own spread already
            seeds = len(by_seed)
            variance -= float(np.nanvar(by_seed - by_seed.mean(0), axis=1).sum()) / (seeds * (seeds - 1))
        yield quantile_of_t(freedom) * own[0][0].scale * math.sqrt(max(0.0, variance) * factor)


def units_of(
    plain: PlainMetric, documents: DocumentLosses, names: Sequence[str]
) -> tuple[Units, Sums] | None:
    """What is drawn of a model's texts, and how much each counts; None without the columns for it."""
    columns = documents.examples.columns
    if not {*plain.needs} <= {*columns}:
        return None
    return drawn_units(plain, Said(columns, names))


def value_of(units: Units, counts: Sums) -> Sums:
    """(d) the values themselves, of metrics whose interval is that of the logarithm too."""
    values = units.values(counts)
    return np.exp(values) if units.plain.interval == "log" else values
