from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnlab.data.encode.encoding import Cut, Encoding, cut_to
from attnlab.data.example import Example
from attnlab.data.labels import WRITTEN, LabelReader
from attnlab.data.row import Row
from attnlab.data.tokenizers.tokenizer import Tokenizer


class Single(Encoding):
    """One text, one row, with its label: [CLS] A [SEP], or what the tokenizer's own form is.

    A text beyond the length loses its end (or its start: reviews often conclude there), counted.
    """

    labelled = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        labels: Sequence[str] = (),
        reader: LabelReader = WRITTEN,
        *,
        cut: Cut = "end",
    ):
        super().__init__(tokenizer, length, labels, reader)
        self.cut: Cut = cut

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form = self.tokenizer.form
        room = self.room(form.single_room)
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            example = chunk[number]
            kept = form.single_sized(cut_to(text, room, self.cut, example))
            self.cuts.count(len(text), len(text) + form.single_room - len(kept))
            yield Row(kept.ids, first + number, kept.sizes, **self.label(example))
