from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnlab.data.encode.encoding import Cut, Encoding, cut_to
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.row import Row
from attnlab.data.tokenizers.tokenizer import Tokenizer


class Translation(Encoding):
    """Source and target apart, for an encoder and a decoder: `ids`, and `target` <START> … <STOP>.

    The decoder reads the target without its last token and predicts it without its first. Both
    are held to data.length, each cut counted.
    """

    uses = ("target",)

    def __init__(self, tokenizer: Tokenizer, length: int, *, cut: Cut = "end"):
        super().__init__(tokenizer, length)
        self.cut: Cut = cut

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form, (start, stop) = self.tokenizer.form, ends(self.tokenizer)
        targets = self.tokenizer.encode_sized([self.needs(e, "target") for e in chunk])
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            example, whole = chunk[number], targets[number]
            source = form.single_sized(cut_to(text, self.room(form.single_room), self.cut, example))
            target = cut_to(whole, self.room(2), self.cut, example)
            total = len(text) + len(whole)
            self.cuts.count(total, total + form.single_room - len(source) - len(target))
            yield Row(
                source.ids,
                first + number,
                source.sizes,
                target=[start, *target.ids, stop],
                target_sizes=[0, *target.sizes, 0],
            )


def ends(tokenizer: Tokenizer) -> tuple[int, int]:
    """The tokens between which a decoder writes."""
    start, stop = tokenizer.specials.start, tokenizer.specials.stop
    if start is None or stop is None:
        raise DataError(
            "This tokenizer has no start or stop token, so a decoder could not know where to begin and end; "
            "train one here, or add the tokens to its tokenizer.json."
        )
    return start, stop
