"""Numbers with their intervals, and arms against a baseline: paired, corrected, and put into words.

A claim about training holds for other seeds and other texts, so its interval contains the chance of
both (spread.py gives the model). Nothing is drawn at random: the same results give the same digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attnlab.evaluation.comparison import POWER, Comparison, corrected_level
from attnlab.evaluation.paired_results import PairedResults, SeedResult, finite, refuse_unpaired, repeated
from attnlab.evaluation.spread import Spread
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Estimate, Floats, t_reach
from attnlab.runs.reason import Reason, ReasonKind

if TYPE_CHECKING:  # it is made of what torch gives; these numbers are read without
    from attnlab.evaluation.documents import DocumentLosses

__all__ = [
    "ASSUMED",
    "Comparison",
    "Estimate",
    "SeedResult",
    "Spread",
    "compare",
    "holm",
    "loss_interval",
    "mean_of_seeds",
    "smallest_difference",
    "spread_of",
]

MARGIN_SHARE = 0.01
"""The part of the baseline's own value below which a difference is taken to be of no account."""
MARGIN_SHARES = {"loss": 0.0025, "bits_per_byte": 0.0025}
"""The same for logarithms: a 400th of a loss of 4 nats is a hundredth of its perplexity."""
ASSUMED = Spread(seeds=0.01, texts=0.002)
"""Of a difference in loss, in nats per token, where no pilot and no earlier study says better. A guess to
the wide side of the one pilot there is (docs/lab-notes.md: 0.003 between seeds, 0.0002 over texts)."""


def mean_of_seeds(values: Sequence[float], *, level: float = 0.95) -> Estimate:
    """The mean over seeds with its t interval: what training again, judged on the same texts, would give."""
    numbers, n = finite("the values of seeds", values), len(values)
    if not n:
        raise ValueError("A mean needs one seed at the least, and there are no values.")
    value = float(numbers.mean())
    if n == 1:
        return Estimate(value, math.nan, math.nan, n, level)
    half = float(t_reach(n - 1, 1 - level) * numbers.std(ddof=1) / math.sqrt(n))
    return Estimate(value, value - half, value + half, n, level)


def loss_interval(documents: DocumentLosses, metric: str = "loss", *, level: float = 0.95) -> Estimate:
    """One trained model's loss, perplexity or bits per byte, as it would be on other texts like these.

    A ratio of sums over texts, so tokens of one text are not taken as independent: its variance is the
    jackknife's over texts, its t has as many degrees of freedom as the texts' sizes leave. Perplexity's
    interval is that of the words' loss, exponentiated. It says nothing of training again: for that, seeds.
    """
    if metric not in METRICS or not METRICS.build(metric).applies(documents.examples):
        of_texts = [name for name in METRICS if METRICS.build(name).applies(documents.examples)]
        raise ValueError(f'"{metric}" is not a metric of these texts; those are {", ".join(of_texts)}.')
    estimate = METRICS.build(metric).interval(documents.examples, level)
    finite(f"the model's {metric}", [estimate.value])
    return estimate


def compare(
    arms: Mapping[str, Sequence[SeedResult]],
    baseline: str,
    *,
    metric: str,
    lower_is_better: bool = True,
    level: float = 0.95,
    margin: float | Literal["share"] = "share",
    invalid: Mapping[str, Sequence[str]] | None = None,
    doubts: Mapping[str, Sequence[Reason]] | None = None,
) -> list[Comparison]:
    """Every other arm against the baseline, paired by seed, and by text where the metric is a loss.

    `margin` is the difference that would not matter, in the metric's unit, or `share`: a hundredth of the
    baseline's mean, and a 400th where the metric is a logarithm. `invalid` names the failed checks of arms:
    these get their numbers but no claim, and no place among the comparisons to correct for. So do arms with
    `doubts`, reasons why their runs prove nothing; seeds with the losses of another seed are one by
    themselves. Losses are compared as they are: that all arms have the same tokenizer and texts is for the
    caller to see to.
    """
    settings: dict[str, Any] = {"metric": metric, "lower_is_better": lower_is_better, "level": level}
    comparisons = differences(arms, baseline, **settings, margin=margin, invalid=invalid, doubts=doubts)
    return corrected(comparisons)


def differences(
    arms: Mapping[str, Sequence[SeedResult]],
    baseline: str,
    *,
    metric: str,
    lower_is_better: bool = True,
    level: float = 0.95,
    margin: float | Literal["share"] = "share",
    invalid: Mapping[str, Sequence[str]] | None = None,
    doubts: Mapping[str, Sequence[Reason]] | None = None,
) -> list[Comparison]:
    """What `compare` gives, before `corrected` allows for their number: for several baselines at once."""
    refuse_unpaired(arms, baseline, metric)
    failed = {name: tuple(checks) for name, checks in (invalid or {}).items()}
    doubted = {arm: [*((doubts or {}).get(arm) or copies(arm, results))] for arm, results in arms.items()}
    limit = margin_of(margin, metric, [result.value for result in arms[baseline]])
    comparisons = []
    for arm, results in arms.items():
        if arm == baseline:
            continue
        pairs = PairedResults(results, arms[baseline], metric)
        half = pairs.spread.half_width(pairs.seeds, level)
        comparisons.append(
            Comparison(
                arm=arm,
                baseline=baseline,
                metric=metric,
                difference=pairs.difference,
                low=pairs.difference - (0.0 if pairs.identical else half),
                high=pairs.difference + (0.0 if pairs.identical else half),
                p=pairs.p,
                p_corrected=math.nan,
                seeds=pairs.seeds,
                documents=pairs.documents,
                lower_is_better=lower_is_better,
                level=level,
                margin=limit,
                p_same=pairs.p_within(limit),
                identical=pairs.identical,
                half_width_over_texts=pairs.half_width_over_texts(level),
                failed=failed.get(arm, ()) + failed.get(baseline, ()),
                checks=failed.get(arm, ()),
                doubts=tuple(dict.fromkeys(doubted[arm] + doubted[baseline])),
                spread=pairs.spread,
            )
        )
    return comparisons


def copies(arm: str, results: Sequence[SeedResult]) -> tuple[Reason, ...]:
    """That seeds of an arm are one result, where they are."""
    seeds = repeated(results)
    return (Reason(ReasonKind.SAME_LOSSES, {"arm": arm, "seeds": seeds}),) if seeds else ()


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """With what allows for the number of comparisons: of all that chance has a part in."""
    claims = [c for c in comparisons if c.claims and not c.identical]
    different, same = holm([c.p for c in claims]), holm([c.p_same for c in claims])
    by_arm = {c.arm: (float(d), float(s)) for c, d, s in zip(claims, different, same, strict=True)}
    done = []
    for c in comparisons:
        p_corrected, p_same = by_arm.get(c.arm, (c.p, c.p_same))
        done.append(replace(c, p_corrected=p_corrected, p_same=p_same, comparisons=max(1, len(claims))))
    return done


def holm(p_values: Sequence[float]) -> Floats:
    """p-values that allow for their number: the smallest times n, the next times n − 1, never falling."""
    p = np.array(p_values, np.float64)
    if np.isnan(p).any():
        return np.full(len(p), math.nan)
    order = np.argsort(p)
    grown = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(grown, 1.0)
    return corrected


def margin_of(margin: float | Literal["share"], metric: str, baseline: Sequence[float]) -> float:
    """The difference that would not matter; a share is told to two digits, so that the words are exact."""
    if margin != "share":
        if not (math.isfinite(margin) and margin > 0):
            raise ValueError(f"margin is {margin}; it must be above 0, in the metric's own unit.")
        return margin
    share = MARGIN_SHARES.get(metric, MARGIN_SHARE)
    return float(f"{share * abs(float(np.mean(baseline))):.2g}")


def spread_of(arm: Sequence[SeedResult], baseline: Sequence[SeedResult], *, metric: str) -> Spread:
    """The spread of a pilot's or an earlier study's difference, to plan another with."""
    refuse_unpaired({"arm": arm, "baseline": baseline}, "baseline", metric)
    return PairedResults(arm, baseline, metric).spread


def smallest_difference(
    spread: Spread, *, seeds: int, comparisons: int = 1, level: float = 0.95, power: float = POWER
) -> float:
    """The smallest true difference that a study of so many seeds and comparisons would find in `power` of
    repetitions, at the level that the first step of the correction asks for; nan with one seed."""
    return spread.smallest(seeds, corrected_level(level, comparisons), power)
