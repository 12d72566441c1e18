"""The words of a text, and their tags where parts of the text are labelled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from attnlab.data.errors import DataError
from attnlab.data.example import Word

WORD = re.compile(r"\w+|[^\w\s]")


def words_in(text: str) -> tuple[Word, ...]:
    """The words of a text whose words nobody said: letters and digits together, every other sign alone."""
    return tuple(Word(found.start(), found.end()) for found in WORD.finditer(text))


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
