"""What every encoding shares: texts tokenised in chunks, cuts counted, labels numbered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attnlab.data.columns import Row
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import UNREAD, WRITTEN, LabelReader, Labels
from attnlab.data.rows import Columns, columns_of
from attnlab.data.tokenizers.sized import Sized
from attnlab.data.tokenizers.tokenizer import Tokenizer

CHUNK_TEXTS, CHUNK_CHARACTERS = 8192, 1 << 20

Cut = Literal["end", "start", "refuse"]
"""What to do with a text that is too long: lose its end, lose its start, or stop with an error."""


MUCH = 0.05
"""The share of tokens cut off from which on scores are of other texts than those that were given."""


OF_TWO_FILES = {"target": ", or the file whose lines are the targets with data.corpus.target_path"}
"""Where a part of an example may stand beside a column."""


@dataclass
class Cuts:
    """How much was cut off: nothing is ever shortened without being counted here."""

    examples: int = 0
    cut: int = 0
    tokens: int = 0
    lost: int = 0
    longest: int = 0  # tokens of the longest example, before it was cut
    answers: int = 0
    inexact: int = 0  # answers that begin or end inside a token
    split: int = 0  # answers that no window holds whole

    def count(self, tokens: int, lost: int) -> None:
        self.examples += 1
        self.tokens += tokens
        self.cut += lost > 0
        self.lost += lost
        self.longest = max(self.longest, tokens)

    def add(self, other: Cuts) -> None:
        """Count what was cut off of other examples, too."""
        self.examples, self.cut = self.examples + other.examples, self.cut + other.cut
        self.tokens, self.lost = self.tokens + other.tokens, self.lost + other.lost
        self.longest, self.inexact = max(self.longest, other.longest), self.inexact + other.inexact
        self.answers, self.split = self.answers + other.answers, self.split + other.split

    @property
    def text_share(self) -> float:
        return self.cut / self.examples if self.examples else 0.0

    @property
    def token_share(self) -> float:
        return self.lost / self.tokens if self.tokens else 0.0

    def record(self) -> dict[str, float]:
        """What a run keeps and reports show of it."""
        return {
            "texts": self.examples,
            "texts_cut": self.cut,
            "texts_cut_share": self.text_share,
            "tokens": self.tokens,
            "tokens_cut": self.lost,
            "tokens_cut_share": self.token_share,
            "longest": self.longest,
        }

    def __str__(self) -> str:
        sentence = (
            f"{self.cut:,} of {self.examples:,} texts cut ({self.text_share:.1%}), "
            f"{self.lost:,} of {self.tokens:,} tokens ({self.token_share:.1%})"
        )
        if self.inexact:
            sentence += f", {self.inexact:,} answers begin or end inside a token"
        if self.split:
            sentence += f", {self.split:,} of {self.answers:,} answers whole in no window"
        return sentence


class Encoding(ABC):
    """How an example becomes rows of ids.

    `uses` names the texts of an example that it takes in; `labelled` says whether rows get its label, as
    `reader` reads it; `typed` whether two texts of a row are told apart by token types; `two_vocabularies`
    whether targets are rows of their own, which another tokenizer may write.
    """

    uses: tuple[str, ...] = ()
    labelled = False
    typed = False
    two_vocabularies = False
    pictured = False
    """Whether rows have a picture, so that the model must have `image` among its inputs."""
    with_text = True
    """Whether rows have a text that is read."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        labels: Sequence[str] = (),
        reader: LabelReader = WRITTEN,
    ):
        self.tokenizer, self.length = tokenizer, length
        self.labels = tuple(labels)
        self.cuts = Cuts()
        self._reader = reader
        self._known = Labels(reader.form.name, self.labels)

    def rows(self, examples: Iterable[Example]) -> Iterator[Row]:
        """All rows of the examples, in order; a few thousand examples are held at a time."""
        first = 0
        for _, chunk in chunks(("", example) for example in examples):
            yield from self._checked_rows(chunk, first)
            first += len(chunk)

    def columns(self, chunk: Sequence[Example], first: int, vocabulary: int) -> tuple[Columns, Cuts]:
        """The rows of some examples as columns, and what was cut off of them."""
        before, self.cuts = self.cuts, Cuts()
        try:
            self.refuse_unusable(chunk, first)
            return self.chunk_columns(chunk, first, vocabulary), self.cuts
        finally:
            self.cuts = before

    def _checked_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        self.refuse_unusable(chunk, first)
        yield from self.chunk_rows(chunk, first)

    def refuse_unusable(self, chunk: Sequence[Example], first: int) -> None:
        """Examples of which something would be left out, and pictures without texts where texts are read: by
        the first of them it is known that all rows would be empty."""
        for example in chunk:
            self.refuse_unused(example)
        if chunk and self.with_text and not first and all(e.image is not None and not e.text for e in chunk):
            raise DataError(
                f"{type(self).__name__} encoding reads texts, and the pictures of these rows have none; name "
                'their column with data.corpus.text, or use data.encoding = "image".'
            )

    @abstractmethod
    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        """The rows of some examples, the first of which is number `first`."""

    def chunk_columns(self, chunk: Sequence[Example], first: int, vocabulary: int) -> Columns:
        """The same rows as columns; nothing where there is none."""
        rows = list(self.chunk_rows(chunk, first))
        return columns_of(rows, vocabulary) if rows else {}

    def settings(self) -> dict[str, object]:
        """What decides the rows, besides text and tokenizer: part of the fingerprint."""
        options = {k: v for k, v in vars(self).items() if k not in ("tokenizer", "cuts") and k[0] != "_"}
        usual = not self.labelled or self._reader.identity in (WRITTEN.identity, UNREAD.identity)
        read = {} if usual else {"reader": self._reader.identity}
        return {"encoding": type(self).__name__, **options, **read}

    def label(self, example: Example) -> dict[str, Any]:
        """What a row is told of an example's label, as fields of a Row."""
        return self._reader.row(example, self._known)

    def refuse_unused(self, example: Example) -> None:
        """Text that this encoding would leave out is not left out in silence."""
        for field, other in (("answers", "question"), ("pair", "pair"), ("target", "prefix or translation")):
            if field not in self.uses and getattr(example, field):
                at = f" (at {example.place})" if example.place else ""
                kind = type(self).__name__.lower()
                raise DataError(
                    f"The examples have {field}{at}, which {kind} encoding would leave out; use "
                    f"data.encoding {other}, or do without the column: {field} = [] in the corpus."
                )

    def needs(self, example: Example, field: str) -> str:
        """A field without which this encoding cannot work."""
        value = getattr(example, field)
        if value is None:
            at = f" (at {example.place})" if example.place else ""
            raise DataError(
                f"{type(self).__name__} encoding needs a {field} in every example{at}; name the column "
                f"that holds it with --{field} COLUMN (data.corpus.{field}){OF_TWO_FILES.get(field, '')}, or "
                "choose another encoding."
            )
        return str(value)

    def room(self, special: int) -> int:
        """How many tokens of text fit beside the special ones."""
        if self.length <= special:
            raise DataError(
                f"data.length {self.length} leaves no room for text next to {special} special tokens; "
                f"use at least {special + 1}, better 64 or more."
            )
        return self.length - special


class Shortened(Encoding):
    """Labelled rows of a text that loses what is beyond the length: its end, its start, or it is refused."""

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


def cut_to(text: Sized, room: int, cut: Cut, example: Example) -> Sized:
    """At most `room` of a text's tokens, by the rule. Whoever calls counts."""
    lost = max(0, len(text) - room)
    if lost and cut == "refuse":
        refuse_cut(example, len(text), room)
    return text[lost:] if cut == "start" else text[: len(text) - lost]


def refuse_cut(example: Example, tokens: int, room: int) -> None:
    at = f" at {example.place}" if example.place else ""
    raise DataError(
        f"A text{at} has {tokens} tokens where {room} fit; raise data.length, "
        'or allow it to be shortened with cut = "end" or "start".'
    )


def chunks(examples: Iterable[tuple[str, Example]]) -> Iterator[tuple[str, list[Example]]]:
    """Examples of one split in lists, bounded in number and in characters so that memory stays flat."""
    by_group: dict[str, list[Example]] = {}
    characters: dict[str, int] = {}
    for split, example in examples:
        mine = by_group.setdefault(split, [])
        mine.append(example)
        size = example.size
        characters[split] = characters.get(split, 0) + size
        if len(mine) >= CHUNK_TEXTS or characters[split] >= CHUNK_CHARACTERS:
            yield split, by_group.pop(split)
            characters[split] = 0
    yield from by_group.items()


# ---------------------------------------------------------------- long texts in parts that overlap
def windows(count: int, room: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Stretches of at most `room` that cover `count` tokens, neighbours sharing `overlap`."""
    begin = 0
    while True:
        end = min(begin + room, count)
        yield begin, end
        if end >= count:
            return
        begin = end - overlap
