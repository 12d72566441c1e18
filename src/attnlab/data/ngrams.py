"""Runs of words as numbers, whatever the tokenizer: what texts share is found among millions of them."""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"\w+")
HELD = 1 << 20
"""Words that are remembered at most."""
WINDOW = 50
"""Words: of a text so many are looked up, in stretches of twice as many."""
COMMON = 50
"""A pair of words that occurs more often than this tells nothing of where a text comes from."""
FEWEST = 3
"""Pairs of words without which a text is not judged."""

Hashes = NDArray[np.uint64]
Index = NDArray[np.int64]
Number = TypeVar("Number", bound=np.integer[Any])


class Numbering(dict[str, int]):
    """A number for each word, the same in every process."""

    def __missing__(self, word: str) -> int:
        if len(self) >= HELD:
            self.clear()
        number = self[word] = zlib.crc32(word.encode("utf-8", "surrogatepass")) + 1
        return number


@dataclass(frozen=True)
class Runs:
    """Every run of n words inside a text: its hash, its text's number, and the place of its first word."""

    hashes: Hashes
    text: Index
    place: Index


class Worded:
    """Texts as the numbers of their words, case and punctuation aside."""

    def __init__(self, flat: Hashes, lengths: Index):
        self.flat, self.lengths = flat, lengths
        self.ends = np.cumsum(lengths)
        self._runs: dict[int, Runs] = {}

    @classmethod
    def of(cls, texts: Iterable[str], numbering: Numbering) -> Worded:
        flat, lengths = [np.zeros(0, np.uint64)], array("q")
        for text in texts:
            words = WORD.findall(text.casefold())
            flat.append(np.fromiter(map(numbering.__getitem__, words), np.uint64, len(words)))
            lengths.append(len(words))
        return cls(np.concatenate(flat), np.array(lengths, np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    def middles(self, chosen: Sequence[int]) -> Worded:
        """WINDOW words from the middle of some texts: beginnings are often alike."""
        lengths = np.minimum(self.lengths[list(chosen)], WINDOW)
        begins = self.ends[list(chosen)] - self.lengths[list(chosen)]
        begins = begins + (self.lengths[list(chosen)] - lengths) // 2
        parts = [self.flat[a : a + n] for a, n in zip(begins, lengths, strict=True)]
        return Worded(np.concatenate([self.flat[:0], *parts]), lengths)

    def runs(self, n: int) -> Runs:
        """Of n words; a text of fewer words has none."""
        if n not in self._runs:
            self._runs[n] = self._run(n)
        return self._runs[n]

    def _run(self, n: int) -> Runs:
        count = max(len(self.flat) - n + 1, 0)
        hashes = np.zeros(count, np.uint64)
        for step in range(n):  # modulo 2⁶⁴, by an odd factor that mixes the bits
            hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + self.flat[step : step + count]
        text = np.repeat(np.arange(len(self)), self.lengths)
        place = np.arange(len(self.flat)) - np.repeat(self.ends - self.lengths, self.lengths)
        inside = text[:count] == text[n - 1 :] if count else np.zeros(0, bool)
        return Runs(hashes[inside], text[:count][inside], place[:count][inside])


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """Each value once, in order: by sorting, where `np.unique` hashes, and takes many times as long."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def shared(some: Hashes, among: Hashes) -> int:
    """How many of some runs are among many others."""
    kinds, counts = np.unique(some, return_counts=True)
    if not len(kinds):
        return 0
    place = np.minimum(np.searchsorted(kinds, among), len(kinds) - 1)
    return int(counts[distinct(place[kinds[place] == among])].sum())


@dataclass(frozen=True)
class Matches:
    """For each query: the share of its pairs of words that stand together in one stretch of another text,
    that text's number (−1 for none), and how many pairs it can be judged by."""

    share: NDArray[np.float64]
    text: Index
    pairs: Index


def best_matches(queries: Worded, references: Worded, own: Sequence[int]) -> Matches:
    """The best match of each query among the references; `own` is its own number there, −1 for none.

    A reference is cut in blocks; a stretch of it is a block with the next one, so that what lies across the
    border of two is whole in one stretch.
    """
    asked, known_runs = queries.runs(2), references.runs(2)
    kinds, kind = np.unique(asked.hashes, return_inverse=True)
    matches = Matches(np.zeros(len(queries)), np.full(len(queries), -1), np.zeros(len(queries), np.int64))
    if not len(kinds) or not len(known_runs.hashes):
        return matches
    place = np.minimum(np.searchsorted(kinds, known_runs.hashes), len(kinds) - 1)
    known = kinds[place] == known_runs.hashes
    common = np.bincount(place[known], minlength=len(kinds)) > COMMON
    asks = distinct(kind * len(queries) + asked.text)  # each pair of a query once
    asks = asks[~common[asks // len(queries)]]
    asker = asks % len(queries)
    matches.pairs[:] = np.bincount(asker, minlength=len(queries))
    used = known & ~common[place]
    blocks = 1 + references.lengths // WINDOW
    begins = np.cumsum(blocks) - blocks
    ask, text, block = matched_asks(
        asks // len(queries), place[used], known_runs.text[used], known_runs.place[used] // WINDOW
    )
    foreign = np.asarray(own, np.int64)[asker[ask]] != text
    ask, stretch = ask[foreign], (begins[text] + block)[foreign]
    before = np.maximum(stretch - 1, begins[text[foreign]])
    every = int(blocks.sum())
    once = distinct(np.concatenate([ask, ask]) * every + np.concatenate([stretch, before]))
    stretches, counts = np.unique(asker[once // every] * every + once % every, return_counts=True)
    order = np.argsort(counts, kind="stable")  # the best of each query is written last
    query = stretches[order] // every
    matches.share[query] = counts[order] / matches.pairs[query]
    matches.text[query] = np.searchsorted(begins, stretches[order] % every, "right") - 1
    return matches


def matched_asks(kinds: Index, kind: Index, text: Index, block: Index) -> tuple[Index, Index, Index]:
    """Each occurrence (its kind, text and block) with each of the asks, sorted by kind, that it answers."""
    first = np.searchsorted(kinds, kind, "left")
    count = np.searchsorted(kinds, kind, "right") - first
    ask = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    return ask, np.repeat(text, count), np.repeat(block, count)
