"""Which tokens to mask, and what to put in their place: pure functions of arrays and a generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.model.losses import IGNORE
from attnlab.tasks.vocabulary import Flags, Ids, Vocabulary

Lengths = NDArray[np.float64]

ATTEMPTS = 10
"""Places tried for a span before the row is left as it is: a crowded one may have no room left."""


@dataclass(frozen=True)
class Replacement:
    """What stands where a token was masked: the mask token, a random one, or the token itself."""

    mask: float
    random: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            in_unit(f"task.{name}", value)
        if self.mask + self.random > 1 + 1e-9:
            raise ConfigError(
                f"task.mask {self.mask} and task.random {self.random} are more than 1 together; "
                "what is left of 1 keeps its token."
            )

    @property
    def kept(self) -> float:
        """The share of the chosen tokens that stay as they are."""
        return max(0.0, 1 - self.mask - self.random)

    def apply(
        self, ids: Ids, chosen: Flags, units: Ids, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> Ids:
        """The ids with the chosen ones replaced; tokens of one unit (B,T) share their fate."""
        lot = generator.random(int(units.max(initial=0)) + 1)[units]
        plain = np.flatnonzero(~vocabulary.special)
        other = plain[generator.integers(len(plain), size=ids.shape)]
        mask_id = vocabulary.needed("mask", "the masked tokens are replaced by")
        masked = np.where(chosen & (lot < self.mask), mask_id, ids)
        return np.where(chosen & (lot >= self.mask) & (lot < self.mask + self.random), other, masked)


def maskable(batch: Batch, vocabulary: Vocabulary) -> Flags:
    """(B,T) the tokens that stand for text."""
    return batch.real.numpy() & ~vocabulary.special[batch.ids.numpy()]


def budget(candidates: int, share: float) -> int:
    """How many of a row's tokens to mask: the share, and one at the least where there is any."""
    return min(candidates, max(1, round(share * candidates))) if candidates else 0


def choose_tokens(candidates: Flags, share: float, generator: np.random.Generator) -> Flags:
    """(B,T) exactly the share of each row's candidates, every set of them equally likely."""
    lots = np.where(candidates, generator.random(candidates.shape), np.inf)
    ranks = lots.argsort(axis=1).argsort(axis=1)
    counts = [budget(int(n), share) for n in candidates.sum(1)]
    return candidates & (ranks < np.array(counts, np.int64)[:, None])


def choose_words(candidates: Flags, words: Ids, share: float, generator: np.random.Generator) -> Flags:
    """(B,T) whole words in random order, until the share of each row's candidates is reached.

    A word that would go beyond the budget is passed over for a shorter one, unless it is the first.
    """
    chosen = np.zeros_like(candidates)
    for row in range(len(candidates)):
        left = budget(int(candidates[row].sum()), share)
        lengths = np.bincount(words[row][candidates[row]])
        for word in generator.permutation(np.flatnonzero(lengths)):
            if left <= 0:
                break
            if lengths[word] > left and chosen[row].any():
                continue
            chosen[row] |= candidates[row] & (words[row] == word)
            left -= int(lengths[word])
    return chosen


def documents(batch: Batch) -> Ids:
    """(B,T) the number of each token's text in its row."""
    return np.zeros(batch.ids.shape, np.int64) if batch.document is None else batch.document.numpy()


def words_of(ids: Ids, candidates: Flags, document: Ids, vocabulary: Vocabulary) -> Ids:
    """(B,T) the number of each token's word in its row: it grows where a word begins."""
    continues = vocabulary.continues(ids) & candidates
    continues[:, 1:] &= candidates[:, :-1] & (document[:, 1:] == document[:, :-1])
    return np.cumsum(~continues, axis=1)


def units_of(ids: Ids) -> Ids:
    """(B,T) every token a unit of its own."""
    return np.arange(ids.size, dtype=np.int64).reshape(ids.shape)


def targets_at(ids: Ids, chosen: Flags) -> Tensor:
    """(B,T) the original tokens where they were chosen, IGNORE elsewhere."""
    return torch.from_numpy(np.where(chosen, ids, IGNORE))


def in_unit(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} is {value}; it is a share, from 0 to 1.")
    return value
