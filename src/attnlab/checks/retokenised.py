"""The bytes of text that some tokens of an example stand for, counted anew from the text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from attnlab.data.example import Example
from attnlab.data.tokenizers.tokenizer import Tokenizer


class Retokenised:
    """An example's texts, tokenised again with the place of each token: which bytes do some ids span?

    It asks the tokenizer's library itself, and shares nothing with what made the rows.
    """

    def __init__(self, tokenizer: Tokenizer, example: Example):
        self.texts = [text for text in (example.text, example.pair, example.target) if text]
        found = [tokenizer.inner.encode(text, add_special_tokens=False) for text in self.texts]
        self.ids = [encoding.ids for encoding in found]
        self.ends = [[end for _, end in encoding.offsets] for encoding in found]
        self.special = tokenizer.special_ids - {tokenizer.specials.unknown}
        self.reached = [0] * len(self.texts)

    def bytes_of(self, ids: Sequence[int]) -> int:
        """Of all stretches of ids between special tokens."""
        stretches = groupby(ids, key=self.special.__contains__)
        return sum(self._span(list(stretch)) for special, stretch in stretches if not special)

    def _span(self, ids: list[int]) -> int:
        """From the end of the token before them to the end of the last; 0 where no text has them."""
        for number, text in enumerate(self.texts):
            begin = place_of(ids, self.ids[number], self.reached[number])
            if begin is not None:
                ends, self.reached[number] = self.ends[number], begin + len(ids)
                start = ends[begin - 1] if begin else 0
                last = begin + len(ids) == len(ends)
                return len(text[start : len(text) if last else ends[begin + len(ids) - 1]].encode())
        return 0


def place_of(ids: Sequence[int], among: Sequence[int], after: int) -> int | None:
    """Where the ids stand among others, first behind what was reached, then from the beginning."""
    wanted, held = (np.array(values, np.int32).tobytes() for values in (ids, among))
    for begin in (4 * after, 0):
        at = held.find(wanted, begin)
        while at % 4 and at >= 0:  # between two ids
            at = held.find(wanted, at + 1)
        if at >= 0:
            return at // 4
    return None
