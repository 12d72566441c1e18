from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from attnlab.data.encode.encoding import Encoding, refuse_cut, size
from attnlab.data.example import Example
from attnlab.data.row import Row
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
        for number, ids in enumerate(self.tokenizer.encode_many([e.text for e in chunk])):
            example = chunk[number]
            yield from self._split(self._closed(ids), first + number, example)

    def _closed(self, ids: Sequence[int]) -> list[int]:
        """The whole text with its special tokens; a stop is added where the form has none."""
        whole, stop = self.tokenizer.form.single(ids), self.tokenizer.specials.stop
        if stop is not None and (not whole or whole[-1] != stop):
            whole.append(stop)
        return whole

    def _split(self, ids: Sequence[int], number: int, example: Example) -> Iterator[Row]:
        total, length = len(ids), self.length
        if total > length and self.long == "refuse":
            refuse_cut(example, total, length)
        kept = min(total, length) if self.long == "cut" else total
        self.cuts.count(total, total - kept)
        bytes_ = size(example.text)
        for begin in range(0, kept, length):
            end = min(begin + length, kept)
            # Bytes are shared out by tokens, rounded so that the parts add up to the text's own.
            share = bytes_ * end // total - bytes_ * begin // total
            yield Row(ids[begin:end], number, share)
