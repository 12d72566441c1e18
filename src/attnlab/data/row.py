"""One encoded row, before batching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """Ids with what goes along; what an encoding does not use is None, in all of its rows.

    `example` counts the split's examples from 0, to lead a prediction back to its text;
    `sizes` are the UTF-8 bytes of text that each of its ids stands for, 0 for special tokens, and
    `target_sizes` those of its target: bits per byte divide by the sizes of what is predicted; `source` is
    how many leading tokens are the source of a prefix; `label` is the number of its class, `labels`
    has a 1 for each class that it has, `number` is what it is labelled with; `words` are the word of each
    token, −1 for none, and `tags` the number of a word's tag at its first token, −100 elsewhere; `start` and
    `end` are the answer's first and last token, both 0 where there is none; `char_start` and `char_end`
    place every token of a passage in its text, −1 for all others.
    """

    ids: Sequence[int]
    example: int
    sizes: Sequence[int]
    types: Sequence[int] | None = None
    source: int | None = None
    target: Sequence[int] | None = None
    target_sizes: Sequence[int] | None = None
    label: int | None = None
    labels: Sequence[int] | None = None
    number: float | None = None
    words: Sequence[int] | None = None
    tags: Sequence[int] | None = None
    start: int | None = None
    end: int | None = None
    char_start: Sequence[int] | None = None
    char_end: Sequence[int] | None = None
