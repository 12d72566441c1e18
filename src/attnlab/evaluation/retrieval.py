"""How well each query finds its own passage among all, by vectors and by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.evaluation.bm25 import BM25
from attnlab.metrics.metric import CLUSTER, Examples
from attnlab.metrics.retrieval import ranks

Vectors = NDArray[np.float32]


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


def by_vectors(queries: Vectors, passages: Vectors, own: NDArray[np.int64]) -> Examples:
    """Ranks by the cosine of vectors of length 1, (n, D) and (m, D)."""
    return Examples({"rank": ranks(lambda some: queries[some] @ passages.T, own), CLUSTER: own})


def by_words(questions: Questions) -> Examples:
    """Ranks by BM25."""
    index = BM25(questions.passages)
    found = ranks(lambda some: index.scores(questions.queries[some]), questions.own)
    return Examples({"rank": found, CLUSTER: questions.own})
