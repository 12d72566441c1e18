"""One encoded row, before batching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnlab.data.columns import NamedColumns


class Row(NamedColumns):
    """Ids with what goes along; what an encoding does not use is None, in all of its rows.

    `example` counts the split's examples from 0, to lead a prediction back to its text;
    `sizes` are the UTF-8 bytes of text that each of its ids stands for, 0 for special tokens, and
    `target_sizes` those of its target: bits per byte divide by the sizes of what is predicted; `source` is
    how many leading tokens are the source of a prefix; `label` is the number of its class, `labels`
    has a 1 for each class that it has, `number` is what it is labelled with; `words` are the word of each
    token, −1 for none, and `tags` the number of a word's tag at its first token, −100 elsewhere; `start` and
    `end` are the answer's first and last token, both 0 where there is none; `char_start` and `char_end`
    place every token of a passage in its text, −1 for all others; `vectors` (T, W) are what is read beside
    the ids, such as patches of an image.
    """

    __slots__ = ()

    def __init__(self, ids: Sequence[int], example: int, sizes: Sequence[int], **columns: Any):
        given = {"ids": ids, "example": example, "sizes": sizes, **columns}
        self.columns = {name: values for name, values in given.items() if values is not None}
