"""An arm against the baseline, and what may be said of it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from attnlab.config.wording import count_of
from attnlab.evaluation.spread import Spread

POWER = 0.8
"""The power of the minimum detectable effect."""
SHOWN = (
    *("arm", "baseline", "metric", "difference", "low", "high", "p", "p_corrected", "smallest"),
    *("seeds", "documents", "margin", "verdict", "words"),
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`difference` is arm − baseline, in the metric's own unit; the rest is what it is worth.

    `low` and `high` are this comparison's own interval; `p_corrected` and the verdict allow for all
    `comparisons` (Holm 1979). `margin` is what would not matter, `p_same` the corrected chance of taking
    a difference beyond it for none. `half_width_over_texts` is of the first seed's models alone. nan is
    what cannot be known: with one seed, all that is said of training.
    """

    arm: str
    baseline: str
    metric: str
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    seeds: int
    documents: int
    lower_is_better: bool
    level: float
    margin: float
    p_same: float
    identical: bool
    half_width_over_texts: float
    failed: tuple[str, ...]
    spread: Spread
    comparisons: int = 1
    doubts: tuple[str, ...] = ()
    """Why the runs are no evidence of a difference, whatever their numbers say."""

    @functools.cached_property
    def smallest(self) -> float:
        """The minimum detectable effect at 80 % power, given this spread."""
        return self.spread.smallest(self.seeds, corrected_level(self.level, self.comparisons), POWER)

    @property
    def verdict(self) -> str:
        """better, worse, no difference larger than x, inconclusive, identical, or invalid."""
        if not self.claims:
            return "invalid"
        if self.identical:
            return "identical"
        if self.p_corrected <= 1 - self.level:
            return "better" if (self.difference < 0) == self.lower_is_better else "worse"
        if self.p_same <= 1 - self.level:
            return f"no difference larger than {self.margin:g}"
        return "inconclusive"  # with one seed no p is known, and none is small

    @property
    def claims(self) -> bool:
        """Whether its numbers may be claimed to mean anything."""
        return not (self.failed or self.doubts)

    @property
    def words(self) -> str:
        """The verdict with its numbers, in a sentence without its full stop."""
        return f"{self.verdict}: {self._because()}"

    def row(self) -> dict[str, Any]:
        """What a table or a file says of it: None is what cannot be known; the spread serves to plan with."""
        spread = {"spread_seeds": self.spread.seeds, "spread_texts": self.spread.texts}
        held = {name: getattr(self, name) for name in SHOWN} | spread
        return {name: None if unknown(value) else value for name, value in held.items()}

    def _because(self) -> str:
        difference = self._shown(self.difference)
        if self.failed:
            checks = " and ".join(dict.fromkeys(self.failed))
            return f"{checks} failed, so the difference in {self.metric} ({difference}) means nothing"
        if self.doubts:
            said = "; ".join(self.doubts)
            return f"{said}, so the difference in {self.metric} ({difference}) is no evidence"
        if self.identical:
            what = "every text's loss" if self.documents else self.metric
            return f"{what} is bit-identical in {count_of(self.seeds, 'seed')}"
        if self.seeds == 1:
            return f"one seed, so seed noise is unknown; {self.metric} {self._over_texts()}"
        return self._measured()

    def _measured(self) -> str:
        said = f"{self.metric} {self._shown(self.difference)}{self._interval(self.low, self.high)}"
        said += f", {chance(self.p_corrected)}"
        if self.comparisons > 1:
            said += f" after correction for {self.comparisons} comparisons"
        if self.verdict in ("better", "worse") and self.p_same <= 1 - self.level:
            said += f"; smaller than {self.margin:g}, the smallest difference that matters"
        if self.verdict == "inconclusive":
            said += f"; {self._unseen()}"
        return said

    def _unseen(self) -> str:
        if math.isnan(self.smallest):
            return f"the same in all {self.seeds} seeds, so there is no spread to test it against"
        if self.p <= 1 - self.level:
            return f"{chance(self.p)} before correction, not significant among {self.comparisons} comparisons"
        least = self._rounded(self.smallest)
        return f"minimum detectable effect with {self.seeds} seeds at 80 % power: {least}"

    def _over_texts(self) -> str:
        shown = self._shown(self.difference)
        half = self.half_width_over_texts
        if math.isnan(half):
            return shown
        interval = self._interval(self.difference - half, self.difference + half)
        return f"{shown}{interval} over {count_of(self.documents, 'text')} for these two models only"

    def _interval(self, low: float, high: float) -> str:
        if math.isnan(low):
            return ""
        return f" ({100 * self.level:g} % from {self._shown(low)} to {self._shown(high)})"

    def _shown(self, value: float) -> str:
        sign = "−" if value < 0 else "+"
        return sign + self._rounded(abs(value))

    def _rounded(self, value: float) -> str:
        """To two digits of the interval's half, where there is one, else to three of the value."""
        half = (self.high - self.low) / 2
        half = self.half_width_over_texts if math.isnan(half) else half
        size = half if half > 0 else abs(value) / 10
        places = 3 if not size > 0 else max(0, 1 - math.floor(math.log10(size)))
        return f"{value:.{places}f}"


def corrected_level(level: float, comparisons: int) -> float:
    """The level of one comparison among several, as the first step of the correction asks for."""
    return 1 - (1 - level) / comparisons


def chance(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def unknown(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
