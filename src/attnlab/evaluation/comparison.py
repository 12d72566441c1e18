"""An arm against the baseline, and what may be said of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypedDict

import attnlab.studies.wording as wording
from attnlab.evaluation.spread import Spread
from attnlab.metrics.metric import Estimate
from attnlab.runs.reason import Reason, ReasonKind

POWER = 0.8
"""The power of the minimum detectable effect."""
LEAKS = frozenset({"dependency", "honesty"})
"""The checks that find a leak."""
SHOWN = (
    *("arm", "baseline", "metric", "difference", "low", "high", "p", "p_corrected", "smallest"),
    *("seeds", "documents", "margin"),
)
FACTS = (
    *("lower_is_better", "level", "p_same", "identical", "half_width_over_texts", "failed"),
    *("comparisons", "checks"),
)
"""What is written after the rest: with it a comparison is read back as it was."""


class Verdict(StrEnum):
    """What a comparison comes to; `SAME` is no difference larger than the margin, `UNTRAINED` that one of the
    two models knows no more than counts of its training text."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "no difference"
    INCONCLUSIVE = "inconclusive"
    IDENTICAL = "identical"
    UNTRAINED = "not trained long enough"
    INVALID = "invalid"


class Unequal(StrEnum):
    """What an arm may differ in from its baseline beside what is compared."""

    SETTINGS = "settings"
    COUNT = "count"
    TIME = "time"
    RATE = "rate"
    TOKENIZER = "tokenizer"
    TUNING = "tuning"


@dataclass(frozen=True)
class Inequality:
    """A number of an arm and of its baseline; `names` are the counts, or the settings, that differ."""

    kind: Unequal
    arm: float = math.nan
    baseline: float = math.nan
    names: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        values = {"kind": self.kind.value, "arm": self.arm, "baseline": self.baseline}
        return values | {"names": list(self.names)}

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Inequality:
        arm, baseline = (nan_of(record[side]) for side in ("arm", "baseline"))
        return cls(Unequal(record["kind"]), arm, baseline, tuple(record["names"]))


class DifferenceRecord(TypedDict):
    """A difference by another measure, as files hold it; None is what cannot be known."""

    difference: float | None
    low: float | None
    high: float | None
    seeds: int


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
    doubts: tuple[Reason, ...] = ()
    """Why the runs are no evidence of a difference, whatever their numbers say."""
    unequal: tuple[Inequality, ...] = ()
    """What the arm has beside its change: more steps, parameters or tuning."""
    checks: tuple[str, ...] = ()
    """The checks that the arm's own runs failed."""
    without_leak: Estimate | None = None
    """Of an arm that leaks, the difference by the loss that a leak cannot lower."""

    @functools.cached_property
    def smallest(self) -> float:
        """The minimum detectable effect at 80% power, given this spread."""
        return self.spread.smallest(self.seeds, corrected_level(self.level, self.comparisons), POWER)

    @property
    def verdict(self) -> Verdict:
        """What its numbers come to; never read from a file."""
        if not self.claims:
            short = {reason.kind for reason in self.doubts} == {ReasonKind.NOT_LEARNED} and not self.failed
            return Verdict.UNTRAINED if short else Verdict.INVALID
        if self.identical:
            return Verdict.IDENTICAL
        if self.p_corrected <= 1 - self.level:
            better = (self.difference < 0) == self.lower_is_better
            return Verdict.BETTER if better else Verdict.WORSE
        if self.p_same <= 1 - self.level:
            return Verdict.SAME
        return Verdict.INCONCLUSIVE  # with one seed no p is known, and none is small

    @property
    def claims(self) -> bool:
        """Whether its numbers may be claimed to mean anything."""
        return not (self.failed or self.doubts)

    @property
    def leaks(self) -> bool:
        """Whether the arm failed a check that finds a leak."""
        return bool(LEAKS.intersection(self.checks))

    @property
    def words(self) -> str:
        """The verdict with its numbers, in a sentence without its full stop."""
        return wording.comparison_phrase(self)

    def as_json(self) -> dict[str, Any]:
        """What a table or a file says of it: None is what cannot be known; the spread serves to plan with.

        `verdict`, `words` and `unequal` are made of the rest, and nothing reads them back.
        """
        values = {name: getattr(self, name) for name in SHOWN}
        values |= {"verdict": wording.verdict_phrase(self), "words": wording.words_of(self)}
        values |= {"spread_seeds": self.spread.seeds, "spread_texts": self.spread.texts}
        values["unequal"] = wording.inequalities_sentence(self.unequal, self.arm, self.baseline)
        if self.leaks:
            values["without_leak"] = None if self.without_leak is None else difference_of(self.without_leak)
        values |= {name: getattr(self, name) for name in FACTS} | {"spread_freedom": self.spread.freedom}
        values |= {"failed": list(self.failed), "checks": list(self.checks)}
        values["doubts"] = [reason.as_json() for reason in self.doubts]
        values["inequalities"] = [inequality.as_json() for inequality in self.unequal]
        return {name: None if is_unknown(value) else value for name, value in values.items()}

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Comparison:
        own = {field.name for field in fields(cls)} - {"doubts", "unequal", "without_leak", "spread"}
        facts = {name: record[name] for name in own if name in record}
        numbers = (
            "difference",
            "low",
            "high",
            "p",
            "p_corrected",
            "p_same",
            "margin",
            "half_width_over_texts",
        )
        facts |= {name: nan_of(record.get(name)) for name in numbers}
        alone = record.get("without_leak")
        return cls(
            **facts | {"failed": tuple(record["failed"]), "checks": tuple(record.get("checks", ()))},
            spread=Spread(
                nan_of(record.get("spread_seeds")),
                nan_of(record.get("spread_texts")),
                math.inf if record.get("spread_freedom") is None else record["spread_freedom"],
            ),
            doubts=tuple(map(Reason.of_json, record["doubts"])),
            unequal=tuple(map(Inequality.of_json, record["inequalities"])),
            without_leak=estimate_of(alone) if alone else None,
        )


def difference_of(estimate: Estimate) -> DifferenceRecord:
    """A difference by another measure, as files hold it."""
    low, high = (estimate.low, estimate.high) if estimate.n > 1 else (None, None)
    return {"difference": estimate.value, "low": low, "high": high, "seeds": estimate.n}


def estimate_of(record: DifferenceRecord) -> Estimate:
    return Estimate(
        nan_of(record["difference"]), nan_of(record["low"]), nan_of(record["high"]), record["seeds"]
    )


def corrected_level(level: float, comparisons: int) -> float:
    """The level of one comparison among several, as the first step of the correction asks for."""
    return 1 - (1 - level) / comparisons


def nan_of(value: float | None) -> float:
    """A number of a file, where null is what is not known."""
    return math.nan if value is None else float(value)


def is_unknown(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
