"""BM25: the ranking by words that a search by meaning has to beat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from attnlab.data.ngrams import WORD

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
        for one in counts:
            for word in one:
                self.numbers.setdefault(word, len(self.numbers))
        lengths = np.array([one.total() for one in counts], np.float64)
        bounds = np.cumsum([0, *map(len, counts)])
        words = np.array([self.numbers[word] for one in counts for word in one], np.int64)
        times = np.array([n for one in counts for n in one.values()], np.float64)
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
