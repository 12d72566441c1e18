"""Tokens with the bytes of text that each stands for: what bits per byte divide by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sized:
    """Ids, and the UTF-8 bytes of each one's text; a slice of it is a shorter text.

    The sizes of a text's tokens add up to the text: white space that no token holds counts to the token
    after it, at the end of the text to the last one. Special tokens have none.
    """

    ids: Sequence[int]
    sizes: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, which: slice) -> Sized:
        return Sized(self.ids[which], self.sizes[which])


@dataclass(frozen=True, slots=True)
class SizedTexts:
    """Many texts as one array of ids and one of sizes; text n goes from borders[n] to borders[n + 1]."""

    ids: NDArray[np.int64]
    sizes: NDArray[np.int64]
    borders: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[Sized]) -> SizedTexts:
        borders = np.cumsum([0, *map(len, texts)])
        ids = np.fromiter(chain.from_iterable(text.ids for text in texts), np.int64, borders[-1])
        sizes = np.fromiter(chain.from_iterable(text.sizes for text in texts), np.int64, borders[-1])
        return cls(ids, sizes, borders)

    def parted(self) -> list[Sized]:
        """Each text on its own."""
        ids, sizes = self.ids.tolist(), self.sizes.tolist()
        return [Sized(ids[begin:end], sizes[begin:end]) for begin, end in pairwise(self.borders.tolist())]


def size(text: str) -> int:
    """UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def byte_ends(text: str, ends: Sequence[int]) -> Sequence[int]:
    """Where tokens end in the bytes of a text, from where they end in its characters."""
    if text.isascii():
        return ends
    before = [0, *accumulate(len(character.encode("utf-8")) for character in text)]
    return [before[end] for end in ends]


def sized(text: str, ids: Sequence[int], ends: Iterable[int]) -> Sized:
    """A whole text's tokens, from where each ends in its characters."""
    # Tokens that share a character (its bytes, one each) end alike: the first of them has its bytes.
    places = list(accumulate(byte_ends(text, list(ends)), max))
    if places:
        places[-1] = size(text)
    return Sized(ids, [b - a for a, b in pairwise([0, *places])])
