"""Is what is sampled distributed as its rule says? By counts, against a second definition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from attnlab.generation.generate import generate
from attnlab.generation.rules import Sample
from attnlab.model.model import Model

COPIES = 500
"""Texts of one prompt, of which one token each is sampled."""
BINS = 10
UNLIKELY = 5.2
"""Standard deviations of a χ² beyond which it is no chance: one in ten million. Seeds are fixed."""
BORDER = 1e-3
"""Shares of a probability within which a token may be left or not: float32 may decide otherwise."""


@dataclass(frozen=True)
class Limits:
    """The options of a sampling rule, by its card."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


def limits_for(scores: Tensor) -> list[Limits]:
    """Rules that are tried: a temperature at which this model's scores are spread, with each limit."""
    heat = max(float(scores[scores.isfinite()].double().std()) / 2, 1e-3)
    return [
        Limits(heat),
        Limits(1.5 * heat, top_k=5),
        Limits(heat, top_p=0.6),
        Limits(heat, min_p=0.2),
        Limits(heat, top_k=12, top_p=0.8),
    ]


def declared(scores: Sequence[float], limits: Limits, border: float = BORDER) -> dict[int, float]:
    """The probability of each token that a rule leaves, written out token by token; those within a share of
    `border` of what is left too."""
    highest = max(scores)
    weights = {n: math.exp((score - highest) / limits.temperature) for n, score in enumerate(scores)}
    ranked = sorted(weights, key=lambda n: -weights[n])
    if limits.top_k:
        least = weights[ranked[min(limits.top_k, len(ranked)) - 1]]
        ranked = [n for n in ranked if weights[n] >= least * (1 - border)]
    total, before, kept = math.fsum(weights[n] for n in ranked), 0.0, list[int]()
    for n in ranked:
        tied = bool(kept) and weights[n] >= weights[kept[-1]] * (1 - border)
        if before >= limits.top_p * total and limits.top_p < 1 and not tied:
            break
        kept.append(n)
        before += weights[n]
    kept = [n for n in kept if weights[n] >= limits.min_p * weights[ranked[0]] * (1 - border)]
    total = math.fsum(weights[n] for n in kept)
    return {n: weights[n] / total for n in kept}


def excess(drawn: Sequence[int], probabilities: dict[int, float]) -> float:
    """How far counts are from what is expected of them, as a share of what chance allows: above 1 is none.

    Infinite where a token was drawn that the rule leaves out. Tokens are put together in bins of about the
    same probability, the likely ones alone.
    """
    counts = Counter(drawn)
    if any(token not in probabilities for token in counts):
        return math.inf
    bins: list[tuple[float, int]] = [(0.0, 0)]
    for token in sorted(probabilities, key=lambda n: -probabilities[n]):
        expected, seen = bins[-1]
        if expected >= len(drawn) / BINS:
            bins.append((expected := 0.0, seen := 0))
        bins[-1] = expected + len(drawn) * probabilities[token], seen + counts[token]
    if len(bins) > 1 and bins[-1][0] < 5:  # too few to count by themselves
        last, seen = bins.pop()
        bins[-1] = bins[-1][0] + last, bins[-1][1] + seen
    freedom = len(bins) - 1
    if not freedom:
        return 0.0
    chi = math.fsum((seen - expected) ** 2 / expected for expected, seen in bins)
    spread = 2 / (9 * freedom)  # Wilson and Hilferty 1931
    return chi / (freedom * (1 - spread + UNLIKELY * math.sqrt(spread)) ** 3)


def excess_of(drawn: Sequence[int], scores: Sequence[float], limits: Limits) -> float:
    """The excess against what a rule declares: with the tokens at its border, or without them."""
    return min(excess(drawn, declared(scores, limits, border)) for border in (BORDER, 0.0))


def sampling_excess(
    model: Model, prompt: Sequence[int], scores: Tensor, sources: list[tuple[int, ...]] | None
) -> float:
    """The largest excess of the rules that are tried, for the token after a prompt whose scores (V) are
    known."""
    worst = 0.0
    for limits in limits_for(scores):
        rule = Sample(
            temperature=limits.temperature, top_k=limits.top_k, top_p=limits.top_p, min_p=limits.min_p
        )
        given = None if sources is None else sources[:1] * COPIES
        texts = generate(model, [prompt] * COPIES, rule=rule, length=1, seed=5, sources=given)
        drawn = [text.new[0] for text in texts]
        worst = max(worst, excess_of(drawn, scores.double().tolist(), limits))
    return worst
