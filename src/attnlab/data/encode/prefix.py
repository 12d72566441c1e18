from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnlab.data.encode.encoding import Cut
from attnlab.data.encode.pair import Pair
from attnlab.data.example import Example
from attnlab.data.row import Row
from attnlab.data.tokenizers.tokenizer import Tokenizer


class Prefix(Pair):
    """Source and target in one row, the source marked: <START> source <SEP> target <STOP>.

    For a decoder alone, or for the mask under which the source sees all of itself and the target
    its own left (Dong et al. 2019). When both do not fit, the longer one gives; cuts are counted.
    """

    uses = ("target",)
    labelled = False
    typed = False

    def __init__(self, tokenizer: Tokenizer, length: int, *, cut: Cut = "end"):
        super().__init__(tokenizer, length, cut=cut)

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form = self.tokenizer.form
        room = self.room(form.pair_room)
        targets = self.tokenizer.encode_sized([self.needs(e, "target") for e in chunk])
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            a, b = self.fitted(text, targets[number], room, chunk[number])
            whole, source = form.pair_sized(a, b), len(form.before) + len(a) + len(form.middle)
            yield Row(whole.ids, first + number, whole.sizes, source=source)
