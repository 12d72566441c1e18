"""WordPiece's training. The `tokenizers` library merges by frequency alone under that name, and numbers
the pieces in another order each time; here the rule is a choice, and the outcome is always the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

CONTINUING = "##"

Score = Literal["likelihood", "ratio", "frequency"]
Counts = NDArray[np.float64]

SCORES: dict[Score, Callable[[Counts, Counts, float], Counts]] = {
    "likelihood": lambda pairs, parts, total: pairs * np.log(pairs * total / parts),
    "ratio": lambda pairs, parts, total: pairs / parts,
    "frequency": lambda pairs, parts, total: pairs,
}
"""What a merge is worth, from count(ab), count(a)·count(b), and the count of all pieces."""


def learned(words: Mapping[str, int], size: int, *, score: Score, minimum_count: int = 2) -> list[str]:
    """At most `size` pieces: the characters, most frequent first, then the merges in their order."""
    table = PairCounts(words, size)
    while len(table.pieces) < size and table.merge_best(score, minimum_count):
        pass
    return table.pieces


def split(word: str) -> list[str]:
    return [word[0], *(CONTINUING + character for character in word[1:])]


class PairCounts:
    """Words in pieces, with the count of every piece and of every pair of neighbours.

    Counts of pairs live in arrays, since every merge changes the scores of all pairs that share a
    piece with it: the best is found anew each time, over arrays rather than over a dictionary.
    """

    def __init__(self, words: Mapping[str, int], size: int):
        characters = Counter[str]()
        for word, count in words.items():
            for piece in split(word):
                characters[piece] += count
        ranked = sorted(characters, key=lambda piece: (-characters[piece], piece))
        self.pieces = ranked[:size]
        self.number = {piece: i for i, piece in enumerate(self.pieces)}
        self.piece_counts = np.zeros(max(size, 1), np.float64)
        self.slots: dict[tuple[int, int], int] = {}
        self.pair_counts, self.left, self.right = np.zeros(1024), np.zeros(1024, int), np.zeros(1024, int)
        self.where: list[set[int]] = []
        self.words: list[list[int]] = []
        self.counts: list[int] = []
        for word in sorted(words):
            self._enter(word, words[word])

    def merge_best(self, score: Score, minimum_count: int) -> tuple[str, str] | None:
        """Merge the pair with the best score and return it; None when none occurs often enough."""
        used = len(self.slots)
        counts, left, right = self.pair_counts[:used], self.left[:used], self.right[:used]
        enough = np.flatnonzero(counts >= minimum_count)
        if not len(enough):
            return None
        parts = self.piece_counts[left[enough]] * self.piece_counts[right[enough]]
        scores = SCORES[score](counts[enough], parts, self.piece_counts.sum())
        best = int(enough[np.argmax(scores)])
        a, b = int(left[best]), int(right[best])
        self._merge(a, b, best)
        return self.pieces[a], self.pieces[b]

    def _enter(self, word: str, count: int) -> None:
        pieces = split(word)
        if all(piece in self.number for piece in pieces):
            self.words.append([self.number[piece] for piece in pieces])
            self.counts.append(count)
            self._count(len(self.words) - 1, 1)

    def _merge(self, a: int, b: int, slot: int) -> None:
        merged = self._name(self.pieces[a] + self.pieces[b].removeprefix(CONTINUING))
        for word in sorted(self.where[slot]):
            self._count(word, -1)
            self.words[word] = merged_pieces(self.words[word], a, b, merged)
            self._count(word, 1)
        self.where[slot].clear()
        self.pair_counts[slot] = 0  # exactly: no word holds it any more

    def _name(self, piece: str) -> int:
        if piece not in self.number:  # two ways can lead to the same piece
            self.number[piece] = len(self.pieces)
            self.pieces.append(piece)
        return self.number[piece]

    def _count(self, word: int, sign: int) -> None:
        """Add a word's pieces and pairs to the counts, or take them out."""
        pieces, weight = self.words[word], sign * self.counts[word]
        for piece in pieces:
            self.piece_counts[piece] += weight
        for pair in pairwise(pieces):
            slot = self._slot(pair)
            self.pair_counts[slot] += weight
            if sign > 0:
                self.where[slot].add(word)

    def _slot(self, pair: tuple[int, int]) -> int:
        if pair not in self.slots:
            slot = self.slots[pair] = len(self.slots)
            if slot == len(self.left):
                for name in ("pair_counts", "left", "right"):
                    array = getattr(self, name)
                    setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
            self.left[slot], self.right[slot] = pair
            self.where.append(set())
        return self.slots[pair]


def merged_pieces(pieces: Sequence[int], a: int, b: int, merged: int) -> list[int]:
    """Pieces with every a·b replaced, from the left."""
    result: list[int] = []
    for piece in pieces:
        if result and result[-1] == a and piece == b:
            result[-1] = merged
        else:
            result.append(piece)
    return result
