"""Results of two arms, paired by seed and by text."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnlab.config.wording import in_words
from attnlab.evaluation.spread import Spread, several_texts, spread_between, weights_of
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Floats, t_reach

if TYPE_CHECKING:  # it is made of what torch gives; these numbers are read without
    from attnlab.evaluation.documents import DocumentLosses


@dataclass(frozen=True)
class SeedResult:
    """What one seed of an arm came to. `documents` are its texts, where the metric is a loss over them."""

    seed: int
    value: float
    documents: DocumentLosses | None = None


class PairedResults:
    """An arm and the baseline, seed by seed; `refuse_unpaired` has seen that they match."""

    def __init__(self, arm: Sequence[SeedResult], baseline: Sequence[SeedResult], metric: str):
        self.metric, self.seeds = metric, len(arm)
        self.arm, self.baseline = (
            sorted(results, key=lambda result: result.seed) for results in (arm, baseline)
        )
        self.differences = values_of(self.arm) - values_of(self.baseline)
        self.difference = float(self.differences.mean())

    @functools.cached_property
    def texts(self) -> tuple[list[DocumentLosses], list[DocumentLosses]]:
        """The texts of every seed of both; none where the metric is not a loss over texts."""
        if self.metric not in METRICS:
            return [], []
        sides = [[r.documents for r in side if r.documents is not None] for side in (self.arm, self.baseline)]
        return sides[0], sides[1]

    @functools.cached_property
    def spread(self) -> Spread:
        return spread_between(self.differences, *self.texts, self.metric)

    @functools.cached_property
    def weights(self) -> list[Floats]:
        """(n) how much each text counts, for every seed of both; none where there are no texts."""
        mine, theirs = self.texts
        return weights_of([*mine, *theirs], self.metric) if mine else []

    @property
    def documents(self) -> int:
        """How many texts the metric is over; 0 where it is not told by texts."""
        return max((int((weights > 0).sum()) for weights in self.weights), default=0)

    @property
    def identical(self) -> bool:
        """Whether all is equal to the bit, texts included: the change changed nothing."""
        texts = zip(*self.texts, strict=True)
        return not self.differences.any() and all(np.array_equal(a.nats, b.nats) for a, b in texts)

    @property
    def p(self) -> float:
        return 1.0 if self.identical else self.spread.p(self.difference, self.seeds)

    def p_within(self, margin: float) -> float:
        """The level at which the whole interval just fits into ±margin: two one-sided tests, each at half."""
        room = margin - abs(self.difference)
        return self.spread.p(room, self.seeds) if room > 0 else 1.0

    def half_width_over_texts(self, level: float) -> float:
        """Half of the interval of these trained models' difference over texts alone; nan where unknown."""
        mine, theirs = self.texts
        if not mine or not several_texts(self.weights):
            return math.nan
        fixed = spread_between(self.differences[:1], mine[:1], theirs[:1], self.metric)
        return float(t_reach(fixed.freedom, 1 - level)) * fixed.texts


def repeated(results: Sequence[SeedResult]) -> list[int]:
    """Seeds whose texts have the losses of another seed, equal to the bit: one result, counted again."""
    by_seed = [(r.seed, r.documents.nats) for r in results if r.documents is not None and len(r.documents)]
    return [
        seed
        for seed, nats in by_seed
        if any(seed != other and np.array_equal(nats, theirs) for other, theirs in by_seed)
    ]


def values_of(results: Sequence[SeedResult]) -> Floats:
    return np.array([result.value for result in results], np.float64)


def finite(what: str, values: Sequence[float] | Floats) -> Floats:
    numbers = np.array(values, np.float64)
    if not np.isfinite(numbers).all():
        shown = ", ".join(f"{value:g}" for value in numbers[:8])
        raise ValueError(f"{what} must be finite numbers, and they are {shown}; leave out what failed.")
    return numbers


def refuse_unpaired(arms: Mapping[str, Sequence[SeedResult]], baseline: str, metric: str) -> None:
    """Stop at results that cannot be paired: another seed is other luck, another text another question."""
    if baseline not in arms:
        raise ValueError(f'The baseline "{baseline}" is not among the arms: {", ".join(arms)}.')
    wanted = sorted(result.seed for result in arms[baseline])
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f'The baseline "{baseline}" needs seeds, each once; it has {in_words(wanted)}.')
    for arm, results in arms.items():
        seeds = sorted(result.seed for result in results)
        if seeds != wanted:
            raise ValueError(
                f'Arms are compared seed by seed, but "{arm}" has seeds {in_words(seeds)}, the baseline '
                f'"{baseline}" has {in_words(wanted)}; run those that are missing, or leave the arm out.'
            )
        finite(f'{metric} of the seeds of "{arm}"', [result.value for result in results])
        if metric in METRICS:
            _refuse_texts(arm, results, arms[baseline], metric)


def _refuse_texts(
    arm: str, results: Sequence[SeedResult], baseline: Sequence[SeedResult], metric: str
) -> None:
    counts = {None if r.documents is None else len(r.documents) for r in (*results, *baseline)}
    if len(counts) > 1:
        shown = " and ".join(sorted("none" if n is None else str(n) for n in counts))
        raise ValueError(
            f'"{arm}" and the baseline were not judged on the same texts: {shown} of them; evaluate all '
            "seeds on one split."
        )
    built = METRICS.build(metric)
    for result in results:
        if result.documents is None:
            continue
        finite(f'nats of the texts of "{arm}"', result.documents.nats)
        whole = built.value(result.documents.examples)
        if not comes_to(whole, result.value):
            raise ValueError(
                f'{metric} of "{arm}" with seed {result.seed} is {result.value:g}, but its texts come to '
                f"{whole:g}; give both from the same evaluation of the whole split."
            )


def comes_to(whole: float, reported: float) -> bool:
    """Whether texts come to the value that was told of them, but for rounding."""
    return math.isclose(whole, reported, rel_tol=1e-3, abs_tol=1e-6)
