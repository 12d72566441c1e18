"""How much of a summary is copied from its source: runs of words that stand in the source as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from attnlab.metrics.metric import OF_TEXTS, Examples, Floats, Metric, ratio

WORD = re.compile(r"\w+|[^\w\s]")
SHORTER, LEAST_WORDS = 2.0, 4
"""References are summaries where their sources have so many times as many words, and they have these."""


def words_of(text: str) -> list[str]:
    """Letters and digits together, every other sign alone, in lower case."""
    return WORD.findall(text.lower())


def ngrams_of(text: str, n: int) -> list[tuple[str, ...]]:
    words = words_of(text)
    return [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]


def mean_words(texts: Iterable[str]) -> float:
    return float(np.mean([len(words_of(text)) for text in texts]))


def are_summaries(examples: Examples) -> bool:
    """Whether the references are much shorter than the sources, and not single words."""
    if "source" not in examples or not len(examples):
        return False
    references = [text if isinstance(text, str) else text[0] for text in examples["reference"]]
    wanted, sources = mean_words(references), mean_words(examples["source"])
    return bool(wanted >= LEAST_WORDS and sources >= SHORTER * wanted)


class Copied1(Metric):
    """Copied words: the share of the words of written summaries that stand in their sources.

    Formula: Σ words of a text that its source has / Σ words of the texts. Words are runs of letters and
    digits, or single signs, in lower case; each occurrence counts. It is asked of summaries alone: where
    sources are at least twice as long as references.
    """

    better = "lower"
    limits = (0.0, 1.0)
    share = True
    needs = (*OF_TEXTS, "source")
    n: ClassVar[int] = 1

    def parts(self, examples: Examples) -> Floats:
        counts = []
        for text, source in zip(examples["generated"], examples["source"], strict=True):
            own, known = ngrams_of(text, self.n), set(ngrams_of(source, self.n))
            counts.append((sum(ngram in known for ngram in own), len(own)))
        return np.array(counts, np.float64).reshape(len(examples), 2)

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])

    def weights(self, examples: Examples) -> Floats:
        return self.parts(examples)[:, 1]

    def applies(self, examples: Examples) -> bool:
        return super().applies(examples) and are_summaries(examples)


class Copied2(Copied1):
    """Copied pairs: the share of the pairs of neighbouring words of written summaries that stand in their
    sources.

    Formula: as of copied words, of pairs.
    """

    n = 2


class Copied3(Copied1):
    """Copied triples: the share of the runs of three words of written summaries that stand in their sources.

    Formula: as of copied words, of runs of three.
    """

    n = 3


class Copied4(Copied1):
    """Copied runs: the share of the runs of four words of written summaries that stand in their sources.

    Formula: as of copied words, of runs of four.
    """

    n = 4
