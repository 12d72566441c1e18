from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnlab.data.encode.encoding import Cut, Encoding, size
from attnlab.data.example import Example
from attnlab.data.row import Row
from attnlab.data.tokenizers.tokenizer import Tokenizer


class Single(Encoding):
    """One text, one row, with its label: [CLS] A [SEP], or what the tokenizer's own form is.

    A text beyond the length loses its end (or its start: reviews often conclude there), counted.
    """

    labelled = True

    def __init__(self, tokenizer: Tokenizer, length: int, labels: Sequence[str] = (), *, cut: Cut = "end"):
        super().__init__(tokenizer, length, labels)
        self.cut: Cut = cut

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form = self.tokenizer.form
        room = self.room(form.single_room)
        for number, ids in enumerate(self.tokenizer.encode_many([e.text for e in chunk])):
            example = chunk[number]
            kept = self.shortened(ids, room, self.cut, example)
            yield Row(form.single(kept), first + number, size(example.text), label=self.label(example))
