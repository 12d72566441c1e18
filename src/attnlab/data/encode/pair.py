from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from attnlab.data.encode.encoding import Cut, Encoding, refuse_cut
from attnlab.data.example import Example
from attnlab.data.labels import WRITTEN, LabelReader
from attnlab.data.row import Row
from attnlab.data.tokenizers.sized import Sized
from attnlab.data.tokenizers.tokenizer import Tokenizer


class Pair(Encoding):
    """Two texts in one row, with segment ids: [CLS] A [SEP] B [SEP] (Devlin et al. 2019).

    The form is the tokenizer's own: RoBERTa's <s> A </s></s> B </s>, GPT's A <stop> B <stop>.
    Without `types` only the separator tells the two apart: for models without token types.
    When both do not fit, `shorten` says which of them gives: the longer one token by token
    (`longest`), only the `first`, or only the `second`; `cut` says from which side.
    """

    uses = ("pair",)
    labelled = True
    typed = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        labels: Sequence[str] = (),
        reader: LabelReader = WRITTEN,
        *,
        shorten: Literal["longest", "first", "second"] = "longest",
        cut: Cut = "end",
        types: bool = True,
    ):
        super().__init__(tokenizer, length, labels, reader)
        self.shorten, self.cut, self._types = shorten, cut, types

    def settings(self) -> dict[str, object]:
        return super().settings() | ({} if self._types else {"types": False})

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form = self.tokenizer.form
        room = self.room(form.pair_room)
        seconds = self.tokenizer.encode_sized([self.needs(e, "pair") for e in chunk])
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            example = chunk[number]
            a, b = self.fitted(text, seconds[number], room, example)
            whole = form.pair_sized(a, b)
            types = form.pair_types(len(a), len(b)) if self._types else None
            yield Row(whole.ids, first + number, whole.sizes, types=types, **self.label(example))

    def fitted(self, a: Sized, b: Sized, room: int, example: Example) -> tuple[Sized, Sized]:
        """As much of both as fits, counted."""
        keep_a, keep_b = kept(len(a), len(b), room, self.shorten)
        lost = len(a) + len(b) - keep_a - keep_b
        if lost and self.cut == "refuse":
            refuse_cut(example, len(a) + len(b), room)
        self.cuts.count(len(a) + len(b), lost)
        if self.cut == "start":
            return a[len(a) - keep_a :], b[len(b) - keep_b :]
        return a[:keep_a], b[:keep_b]


def kept(a: int, b: int, room: int, shorten: Literal["longest", "first", "second"]) -> tuple[int, int]:
    """How many tokens of each text stay. The one that must not be shortened still must fit."""
    if a + b <= room:
        return a, b
    if shorten == "first":
        return max(0, room - b), min(b, room)
    if shorten == "second":
        return min(a, room), max(0, room - a)
    half = room // 2
    keep_b = min(b, max(half, room - a))  # the first text gets the odd token, as in BERT's own rule
    return room - keep_b, keep_b
