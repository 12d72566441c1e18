from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnlab.data.encode.encoding import Shortened, cut_to
from attnlab.data.example import Example
from attnlab.data.row import Row


class Single(Shortened):
    """One text, one row, with its label: [CLS] A [SEP], or what the tokenizer's own form is.

    A text beyond the length loses its end (or its start: reviews often conclude there), counted.
    """

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form = self.tokenizer.form
        room = self.room(form.single_room)
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            example = chunk[number]
            kept = form.single_sized(cut_to(text, room, self.cut, example))
            self.cuts.count(len(text), len(text) + form.single_room - len(kept))
            yield Row(kept.ids, first + number, kept.sizes, **self.label(example))
