"""A linear model of the words of a text: what labels are worth without a transformer, in seconds.

Words, pairs of words and short runs of characters are hashed, so that any language will do and nothing is
kept of a vocabulary. Nothing is drawn at random: the same rows give the same numbers.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.data.example import Example

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

TEXTS = 3000
"""Training texts that it learns from, evenly spread: of more of them it learns little more."""
CHARACTERS = 1000
"""Characters of a text that are read."""
BUCKETS = 1 << 16
RUNS = (2, 4)
"""Lengths of runs of characters: pairs serve scripts without spaces."""
FEW = 100
"""Texts up to which a feature of one text alone is kept."""
STRENGTH = 4.0
"""How much the rows count beside the penalty: 1/λ."""
ITERATIONS = 15
"""Steps to the best weights: more of them learn the rows by heart."""
WORD = re.compile(r"\w+")
FACTOR = np.uint64(0x9E3779B97F4A7C15)
SECOND, SHARED = np.uint64(0x5851F42D4C957F2D), np.uint64(0x14057B7EF767814F)
"""What tells the words of a second text, and those that both have, from those of the first."""


@cache
def _word(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) + 1


def _hashes(text: str) -> tuple[Hashes, Hashes]:
    """The words of a text, and all that stands in it: words, pairs of them, runs of characters."""
    lowered = text[:CHARACTERS].casefold()
    words = np.array([_word(word) for word in WORD.findall(lowered)], np.uint64)
    pairs = words[:-1] * FACTOR + words[1:]
    signs = np.frombuffer(f" {lowered} ".encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    runs = []
    for length in RUNS:
        run = np.full(max(0, len(signs) - length + 1), length, np.uint64)
        for place in range(length if len(run) else 0):
            run = run * FACTOR + signs[place : len(signs) - length + 1 + place]
        runs.append(run)
    return words, np.concatenate([words * FACTOR, pairs, *runs])


def features(examples: Sequence[Example]) -> csr_matrix:
    """(n, BUCKETS) which of the hashed features each example has, 1 or 0."""
    from scipy.sparse import csr_matrix

    rows = []
    for example in examples:
        words, own = _hashes(example.text)
        if example.pair is not None:
            others, second = _hashes(example.pair)
            own = np.concatenate([own, second ^ SECOND, np.intersect1d(words, others) * FACTOR ^ SHARED])
        rows.append(np.unique((own * FACTOR) >> np.uint64(64 - 16)))
    bounds = np.cumsum([0, *map(len, rows)])
    places = np.concatenate(rows).astype(np.int32) if rows else np.zeros(0, np.int32)
    return csr_matrix((np.ones(len(places)), places, bounds), shape=(len(rows), BUCKETS))


# ---------------------------------------------------------------- what is predicted
@dataclass(frozen=True)
class LinearForm:
    """How scores (n,C) are read, and what is lost by them: the sum over rows, and its slope."""

    read: Callable[[Floats], Floats]
    lose: Callable[[Floats, Floats], float]


def softmax(scores: Floats) -> Floats:
    raised = np.exp(scores - scores.max(1, keepdims=True))
    shares: Floats = raised / raised.sum(1, keepdims=True)
    return shares


def sigmoid(scores: Floats) -> Floats:
    chances: Floats = 0.5 * (1 + np.tanh(scores / 2))
    return chances


ONE_CLASS = LinearForm(softmax, lambda scores, y: float(-(_log_softmax(scores) * y).sum()))
ANY_CLASSES = LinearForm(sigmoid, lambda scores, y: float((np.logaddexp(0, scores) - scores * y).sum()))
NUMBER = LinearForm(lambda scores: scores, lambda scores, y: float(((scores - y) ** 2).sum() / 2))
"""Of each, the slope of what is lost is what is read minus what is right."""


def _log_softmax(scores: Floats) -> Floats:
    shifted = scores - scores.max(1, keepdims=True)
    logs: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return logs


@dataclass(frozen=True, eq=False)
class BagOfWords:
    """Weights (BUCKETS, C) of features, by how rare each is, and what is said where nothing is known (C)."""

    form: LinearForm
    rarity: Floats
    weights: Floats
    bias: Floats

    @classmethod
    def fit(cls, examples: Sequence[Example], targets: Floats, form: LinearForm) -> BagOfWords:
        """The weights that lose least on examples with targets (n,C), a penalty on their squares included."""
        found = features(examples)
        times = np.asarray(found.sum(0)).ravel()
        rarity: Floats = np.log((1 + len(examples)) / (1 + times)) + 1
        n, size = targets.shape
        used = np.flatnonzero(times > (1 if n > FEW else 0))
        x = _scaled(found, rarity)[:, used]
        columns = x.T.tocsr()  # read once for every step

        def lost(flat: Floats) -> tuple[float, Floats]:
            own, bias = flat[:-size].reshape(-1, size), flat[-size:]
            scores = x @ own + bias
            slope = form.read(scores) - targets
            total = STRENGTH * form.lose(scores, targets) + 0.5 * float((own**2).sum())
            slopes = [(STRENGTH * (columns @ slope) + own).ravel(), STRENGTH * slope.sum(0)]
            return total / n, np.concatenate(slopes) / n

        best = _least(lost, np.zeros((len(used) + 1) * size))
        weights = np.zeros((BUCKETS, size))
        weights[used] = best[:-size].reshape(-1, size)
        return cls(form, rarity, weights, best[-size:])

    def __call__(self, examples: Sequence[Example]) -> Floats:
        """(n,C) what it says of examples."""
        scores: Floats = _scaled(features(examples), self.rarity) @ self.weights + self.bias
        return self.form.read(scores)


def _scaled(found: csr_matrix, rarity: Floats) -> csr_matrix:
    """Each feature by how rare it is, each row of length 1."""
    scaled = found.multiply(rarity).tocsr()
    lengths = np.sqrt(np.asarray(scaled.multiply(scaled).sum(1)).ravel())
    return scaled.multiply(1 / np.maximum(lengths, 1e-12)[:, None]).tocsr()


def _least(lost: Callable[[Floats], tuple[float, Floats]], begin: Floats) -> Floats:
    """Where least is lost, by L-BFGS; that of scipy takes ten times as long, since it minds bounds."""
    place = torch.from_numpy(begin).requires_grad_()
    steps = torch.optim.LBFGS([place], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> float:
        total, slope = lost(place.detach().numpy())
        place.grad = torch.from_numpy(slope)
        return total

    steps.step(closure)
    least: Floats = place.detach().numpy()
    return least
