"""Rows of one or two texts: alone, joined, kept apart, as prefix and target, as source and target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from attnlab.data.columns import Row
from attnlab.data.encode.encoding import Cut, Encoding, Shortened, cut_to, refuse_cut
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import WRITTEN, LabelReader
from attnlab.data.tokenizers.sized import Sized
from attnlab.data.tokenizers.tokenizer import Tokenizer


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


class Translation(Encoding):
    """Source and target apart, for an encoder and a decoder: `ids`, and `target` <START> … <STOP>.

    The decoder reads the target without its last token and predicts it without its first. Both
    are held to data.length, each cut counted.
    """

    uses = ("target",)
    two_vocabularies = True

    def __init__(self, tokenizer: Tokenizer, length: int, *, cut: Cut = "end"):
        super().__init__(tokenizer, length)
        self.cut: Cut = cut

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form, (start, stop) = self.tokenizer.form, ends(self.tokenizer)
        targets = self.tokenizer.target.encode_sized([self.needs(e, "target") for e in chunk])
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
    start, stop = tokenizer.target.specials.start, tokenizer.target.specials.stop
    if start is None or stop is None:
        raise DataError(
            "This tokenizer has no start or stop token, so a decoder could not know where to begin and end; "
            "train one here, or add the tokens to its tokenizer.json."
        )
    return start, stop
