"""What a corpus yields: texts with their labels, answers and tagged words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from attnlab.data.errors import DataError
from attnlab.data.images.picture import Picture


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and where it begins in its passage, in characters."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text, from character to character, and its tag, which is empty where nobody said it."""

    start: int
    end: int
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One item of a corpus; the fields that are there say what it can be used for.

    `pair` is a second sentence or a passage, `label` a name, several names, or a number as text,
    `target` what the text is to become, `words` its words with a tag each, `group` what
    must stay in one split (a question's article), `place` the file and line, for messages. `image` is a
    picture that goes with the text, or stands for itself where the text is empty.
    """

    text: str
    pair: str | None = None
    target: str | None = None
    label: str | tuple[str, ...] | None = None
    answers: tuple[Answer, ...] = ()
    words: tuple[Word, ...] = ()
    group: str | None = None
    place: str = ""
    image: Picture | None = None

    @property
    def second(self) -> str | None:
        """What belongs to its text, or to its picture: a second text; of a picture its own text or target."""
        if self.pair is not None or self.image is None:
            return self.pair
        return self.text or self.target

    @property
    def size(self) -> int:
        """Characters of its texts, and bytes of its picture that are in memory."""
        texts = len(self.text) + len(self.pair or "") + len(self.target or "")
        return texts if self.image is None else texts + self.image.held


WORD = re.compile(r"\w+|[^\w\s]")


def words_in(text: str) -> tuple[Word, ...]:
    """The words of a text whose words nobody said: letters and digits together, every other sign alone."""
    return tuple(Word(word.start(), word.end()) for word in WORD.finditer(text))


def tagged_words(text: str, spans: Sequence[tuple[int, int, str]]) -> tuple[Word, ...]:
    """The words of a text with character spans, tagged B-, I- and O. Words are cut where a span begins or
    ends; spans must lie in the text, apart from each other.
    """
    ordered = sorted(spans)
    last = 0
    for start, end, label in ordered:
        if not last <= start < end <= len(text):
            raise DataError(
                f"the span {start} to {end} ({label}) is empty, outside the text, or over another"
            )
        last = end
    words: list[Word] = []
    edges = sorted({0, len(text), *(place for start, end, _ in ordered for place in (start, end))})
    labels = {start: (end, label) for start, end, label in ordered}
    for begin, end in pairwise(edges):
        label = labels[begin][1] if begin in labels else ""
        for number, word in enumerate(WORD.finditer(text, begin, end)):
            tag = f"{'I' if number else 'B'}-{label}" if label else "O"
            words.append(Word(word.start(), word.end(), tag))
    return tuple(words)
