from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.data.columns import COLUMNS, Row
from attnlab.data.encode.encoding import Cuts, Encoding, refuse_cut
from attnlab.data.example import Example
from attnlab.data.rows import Columns
from attnlab.data.tokenizers.sized import Sized, SizedTexts
from attnlab.data.tokenizers.tokenizer import Tokenizer


class Document(Encoding):
    """Text for language modelling: <START> text <STOP>, long ones parted into rows, nothing lost.

    `long` says what becomes of a text beyond the length: `split` gives further rows (every token
    is in exactly one), `cut` keeps the beginning and counts the loss, `refuse` stops.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        *,
        long: Literal["split", "cut", "refuse"] = "split",
    ):
        super().__init__(tokenizer, length)  # a label would belong to every part of a text: none does
        self.long = long

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            yield from self._split(self._closed(text), first + number, chunk[number])

    def chunk_columns(self, chunk: Sequence[Example], first: int, vocabulary: int) -> Columns:
        """By arrays, since this is how gigabytes are encoded: the rows of `chunk_rows`, to the last bit."""
        form, stop = self.tokenizer.form, self.tokenizer.specials.stop
        if stop is not None and not form.end:  # whether a stop is added depends on each text
            return super().chunk_columns(chunk, first, vocabulary)
        end = form.end if stop is None or form.end[-1] == stop else (*form.end, stop)
        texts = closed(self.tokenizer.encode_together([e.text for e in chunk]), form.before, end)
        totals = np.diff(texts.borders)
        if self.long == "refuse" and (totals > self.length).any():
            number = int(np.argmax(totals > self.length))
            refuse_cut(chunk[number], int(totals[number]), self.length)
        kept = np.minimum(totals, self.length) if self.long == "cut" else totals
        self.cuts.add(cuts_of(totals, kept))
        rows = -(-kept // self.length)
        lengths = np.full(int(rows.sum()), self.length)
        last = np.cumsum(rows)[rows > 0] - 1
        lengths[last] = (kept - (rows - 1) * self.length)[rows > 0]
        if not len(lengths):
            return {}
        inside = np.arange(len(texts.ids)) - np.repeat(texts.borders[:-1], totals) < np.repeat(kept, totals)
        bounds, sizes = bounds_of(lengths), texts.sizes[inside]
        return {
            "ids": texts.ids[inside].astype(COLUMNS["ids"].dtype(vocabulary)),
            "ids.bounds": bounds,
            "example": np.repeat(np.arange(first, first + len(chunk)), rows),
            "sizes": sizes.astype(np.min_scalar_type(int(sizes.max(initial=0)))),
            "sizes.bounds": bounds,
        }

    def _closed(self, text: Sized) -> Sized:
        """The whole text with its special tokens; a stop is added where the form has none."""
        whole, stop = self.tokenizer.form.single_sized(text), self.tokenizer.specials.stop
        if stop is None or (whole.ids and whole.ids[-1] == stop):
            return whole
        return Sized([*whole.ids, stop], [*whole.sizes, 0])

    def _split(self, text: Sized, number: int, example: Example) -> Iterator[Row]:
        total, length = len(text), self.length
        if total > length and self.long == "refuse":
            refuse_cut(example, total, length)
        kept = min(total, length) if self.long == "cut" else total
        self.cuts.count(total, total - kept)
        for begin in range(0, kept, length):
            part = text[begin : min(begin + length, kept)]
            yield Row(part.ids, number, part.sizes)


def closed(texts: SizedTexts, before: Sequence[int], end: Sequence[int]) -> SizedTexts:
    """Texts with special tokens, which have no bytes, before and behind each."""
    lengths = np.diff(texts.borders)
    borders = bounds_of(lengths + len(before) + len(end))
    ids, sizes = np.zeros(borders[-1], np.int64), np.zeros(borders[-1], np.int64)
    places = np.arange(len(texts.ids)) + np.repeat(borders[:-1] + len(before) - texts.borders[:-1], lengths)
    ids[places], sizes[places] = texts.ids, texts.sizes
    for number, token in enumerate(before):
        ids[borders[:-1] + number] = token
    for number, token in enumerate(end):
        ids[borders[1:] - len(end) + number] = token
    return SizedTexts(ids, sizes, borders)


def bounds_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def cuts_of(totals: NDArray[np.int64], kept: NDArray[np.int64]) -> Cuts:
    """What is counted of texts of so many tokens, of which so many are kept."""
    return Cuts(
        examples=len(totals),
        cut=int((kept < totals).sum()),
        tokens=int(totals.sum()),
        lost=int((totals - kept).sum()),
        longest=int(totals.max(initial=0)),
    )
