from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from attnlab.data.encode.encoding import Encoding, refuse_cut
from attnlab.data.example import Example
from attnlab.data.row import Row
from attnlab.data.tokenizers.sized import Sized
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
