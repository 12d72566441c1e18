"""How well each query finds its own passage among all, by vectors and by words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from attnlab.data.ngrams import WORD
from attnlab.metrics import METRICS
from attnlab.metrics.measures import measure_of
from attnlab.metrics.metric import CLUSTER, Estimate, Examples
from attnlab.metrics.retrieval import ranks
from attnlab.runs.findings import Finding

Vectors = NDArray[np.float32]
MEASURES = ("reciprocal_rank", "recall_at_1", "recall_at_10")


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


@dataclass(frozen=True)
class RankingScore:
    """A measure of a model, by chance, and of BM25 with their difference query by query; without those
    where queries have no words."""

    definition: str
    model: Estimate
    chance: float
    bm25: Estimate | None = None
    difference: Estimate | None = None

    def as_json(self) -> dict[str, Any]:
        sides = {"model": self.model, "bm25": self.bm25, "difference": self.difference}
        scores = {
            side: {"value": scores.value, "interval": list(scores.interval) if scores.interval else None}
            for side, scores in sides.items()
            if scores is not None
        }
        return {"definition": self.definition, **scores, "chance": self.chance}


@dataclass(frozen=True)
class RankingResult:
    """How well queries find their own passages; `checks` are of the queries."""

    queries: int
    passages: int
    measures: Mapping[str, RankingScore]
    checks: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "passages": self.passages,
            "chance": 1 / self.passages,
            "measures": {name: score.as_json() for name, score in self.measures.items()},
            "checks": [finding.as_json() for finding in self.checks],
        }


def rank_scores(questions: Questions, model: Examples) -> dict[str, RankingScore]:
    """The measures of a model's ranks, with BM25's on the same queries."""
    words, scores = by_words(questions), {}
    for name, score in chance_scores(len(questions.passages), model).items():
        metric = METRICS.build(name)
        difference = metric.difference(model, words)
        scores[name] = replace(score, bm25=metric.interval(words), difference=difference)
    return scores


def chance_scores(passages: int, model: Examples) -> dict[str, RankingScore]:
    """The measures of a model's ranks, and of a rank drawn by chance: each as often as any other."""
    every = Examples({"rank": np.arange(1, passages + 1)})
    metrics = {name: METRICS.build(name) for name in MEASURES}
    return {
        name: RankingScore(measure_of(name).definition, metric.interval(model), metric.value(every))
        for name, metric in metrics.items()
    }


def by_vectors(queries: Vectors, passages: Vectors, own: NDArray[np.int64]) -> Examples:
    """Ranks by the cosine of vectors of length 1, (n, D) and (m, D)."""
    return Examples({"rank": ranks(lambda some: queries[some] @ passages.T, own), CLUSTER: own})


def by_words(questions: Questions) -> Examples:
    """Ranks by BM25."""
    index = BM25(questions.passages)
    rank = ranks(lambda some: index.scores(questions.queries[some]), questions.own)
    return Examples({"rank": rank, CLUSTER: questions.own})


# ---------------------------------------------------------------- by words
K1, B = 1.2, 0.75
"""The usual values: how soon a word's repetition is enough, and how much long texts are held back."""


class BM25:
    """Scores of texts by the words that they share with a query, rare ones counting more.

    Σ_words idf·tf·(k1 + 1) / (tf + k1·(1 − b + b·length/mean length)), idf = ln(1 + (N − n + ½)/(n + ½)).
    Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework".
    """

    def __init__(self, texts: Sequence[str]):
        self.numbers: dict[str, int] = {}
        counts = [Counter(words_of(text)) for text in texts]
        for count in counts:
            for word in count:
                self.numbers.setdefault(word, len(self.numbers))
        lengths = np.array([count.total() for count in counts], np.float64)
        bounds = np.cumsum([0, *map(len, counts)])
        words = np.array([self.numbers[word] for count in counts for word in count], np.int64)
        times = np.array([n for count in counts for n in count.values()], np.float64)
        holders = np.bincount(words, minlength=len(self.numbers))
        rarity = np.log1p((len(texts) - holders + 0.5) / (holders + 0.5))
        held_back = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0))
        weights = rarity[words] * times * (K1 + 1) / (times + np.repeat(held_back, np.diff(bounds)))
        self.weights = sparse.csr_matrix((weights, words, bounds), (len(texts), max(len(self.numbers), 1)))

    def scores(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """(queries, texts); a word that a query says twice counts twice."""
        asked = sparse.lil_matrix((len(queries), self.weights.shape[1]))
        for row, query in enumerate(queries):
            for word, times in Counter(words_of(query)).items():
                if word in self.numbers:
                    asked[row, self.numbers[word]] = times
        return np.asarray((asked.tocsr() @ self.weights.T).todense())


def words_of(text: str) -> list[str]:
    return WORD.findall(text.casefold())
