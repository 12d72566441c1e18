"""Samples in numbers: does a model repeat itself, does it stop, does it know its words?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.generation.generate import Written


@dataclass(frozen=True)
class SampleQuality:
    """Shares over a set of samples; n is the number of samples, tokens that of their tokens."""

    n: int
    tokens: int
    distinct_2: float  # different pairs of tokens / all pairs
    repeated_4: float  # runs of 4 tokens that stood in the same sample before / all such runs
    stopped: float  # samples that ended by themselves
    unknown: float  # unknown tokens / all tokens


def quality(samples: Sequence[Written], *, unknown: int | None = None) -> SampleQuality:
    """What can be said of samples without reading them."""
    texts = [sample.new for sample in samples]
    tokens = sum(map(len, texts))
    pairs = [pair for text in texts for pair in ngrams(text, 2)]
    runs = [Counter(ngrams(text, 4)) for text in texts]
    repeats, total = sum(sum(r.values()) - len(r) for r in runs), sum(sum(r.values()) for r in runs)
    return SampleQuality(
        n=len(samples),
        tokens=tokens,
        distinct_2=share(len(set(pairs)), len(pairs)),
        repeated_4=share(repeats, total),
        stopped=share(sum(sample.stopped for sample in samples), len(samples)),
        unknown=share(sum(text.count(unknown) for text in texts) if unknown is not None else 0, tokens),
    )


def ngrams(text: Sequence[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
