"""One encoded row, before batching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """Ids with what goes along; what an encoding does not use is None, in all of its rows.

    `example` counts the split's examples from 0, to lead a prediction back to its text;
    `bytes` is the UTF-8 size of the text that the row stands for (bits per byte); `source` is
    how many leading tokens are the source of a prefix; `start` and `end` are the answer's first
    and last token, both 0 where there is none; `char_start` and `char_end` place every token of a
    passage in its text, −1 for all others.
    """

    ids: Sequence[int]
    example: int
    bytes: int
    types: Sequence[int] | None = None
    source: int | None = None
    target: Sequence[int] | None = None
    label: int | None = None
    start: int | None = None
    end: int | None = None
    char_start: Sequence[int] | None = None
    char_end: Sequence[int] | None = None
