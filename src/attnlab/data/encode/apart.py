from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnlab.data.encode.encoding import Shortened, cut_to
from attnlab.data.example import Example
from attnlab.data.row import Row


class Apart(Shortened):
    """Two texts in one row and apart, each in the form of a single one: `ids`, and `target` for the second.

    One model reads both, one after the other, as in search: neither sees the other. Both are held to
    data.length, each cut counted.
    """

    uses = ("pair",)

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form = self.tokenizer.form
        room = self.room(form.single_room)
        seconds = self.tokenizer.encode_sized([self.needs(e, "pair") for e in chunk])
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            example, whole = chunk[number], seconds[number]
            one, other = (form.single_sized(cut_to(t, room, self.cut, example)) for t in (text, whole))
            total = len(text) + len(whole)
            self.cuts.count(total, total + 2 * form.single_room - len(one) - len(other))
            yield Row(
                one.ids,
                first + number,
                one.sizes,
                target=other.ids,
                target_sizes=other.sizes,
                **self.label(example),
            )
