"""How well each query finds its own passage among all, by vectors and by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.evaluation.bm25 import BM25
from attnlab.metrics.metric import Examples

AT_ONCE = 256
"""Queries that are scored at a time."""

Vectors = NDArray[np.float32]
ScoresOf = Callable[[slice], NDArray[np.floating]]
"""The scores (queries, passages) of some of the queries."""


@dataclass(frozen=True)
class Questions:
    """Queries, the passages that they are asked of, each once, and which one is each query's own."""

    queries: Sequence[str]
    passages: Sequence[str]
    own: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> Questions:
        """From (query, passage): a passage that several queries have is there once."""
        numbers = {passage: n for n, passage in enumerate(dict.fromkeys(p for _, p in pairs))}
        own = np.array([numbers[passage] for _, passage in pairs], np.int64)
        return cls([query for query, _ in pairs], list(numbers), own)


def ranks(scores_of: ScoresOf, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n) the rank of each query's own passage: 1 + how many others score at least as high."""
    found = np.empty(len(own), np.int64)
    for first in range(0, len(own), AT_ONCE):
        some = slice(first, min(first + AT_ONCE, len(own)))
        scores = scores_of(some)
        right = scores[np.arange(len(scores)), own[some]]
        # not a number is as high as it gets: a model that gives none finds nothing
        found[some] = (~(scores < right[:, None])).sum(1)
    return found


def by_vectors(queries: Vectors, passages: Vectors, own: NDArray[np.int64]) -> Examples:
    """Ranks by the cosine of vectors of length 1, (n, D) and (m, D)."""
    return Examples({"rank": ranks(lambda some: queries[some] @ passages.T, own)})


def by_words(questions: Questions) -> Examples:
    """Ranks by BM25."""
    index = BM25(questions.passages)
    return Examples({"rank": ranks(lambda some: index.scores(questions.queries[some]), questions.own)})
