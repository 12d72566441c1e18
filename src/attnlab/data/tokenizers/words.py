"""Words tokenised once: most of a text consists of words that were met before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain

import tokenizers as library

MOST_WORDS = 1 << 18

# Where GPT-2's pattern always parts a text, whatever stands further off: before a single space between
# two characters that are not white space. (U+180E was white space in older Unicode.)
CUT = re.compile(r"(?<=[^\s\u180e]) (?=[^\s\u180e])")


def independent(tokenizer: library.Tokenizer) -> bool:
    """Whether this tokenizer's words are tokenised each on its own: byte-level BPE as GPT-2 has it."""
    held = json.loads(tokenizer.to_str())
    splitter, model = held["pre_tokenizer"] or {}, held["model"]
    return (
        splitter.get("type") == "ByteLevel"
        and splitter.get("use_regex") is True
        and splitter.get("add_prefix_space") is False
        and held["normalizer"] is None
        and model["type"] == "BPE"
        and not model.get("dropout")
        and all(token["special"] for token in held["added_tokens"])
    )


class Words:
    """Ids of words, remembered; a text is put together from them. Exactly the ids of the whole text.

    Words are held without the space before them, save for each text's first: millions of strings
    need not be made only to be looked up.
    """

    def __init__(self, encode: Callable[[Sequence[str]], list[list[int]]]):
        self.encode_words = encode
        self.ids: dict[str, list[int]] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        parted = list(map(parts, texts))
        firsts = self.encode_words([words[0] for words in parted])
        for words in parted:
            del words[0]
        self._learn(set(chain.from_iterable(parted)))
        known = self.ids.__getitem__
        return [
            list(chain(first, chain.from_iterable(map(known, words))))
            for first, words in zip(firsts, parted, strict=True)
        ]

    def _learn(self, words: set[str]) -> None:
        if len(self.ids) + len(words) > MOST_WORDS:  # memory stays flat; the frequent ones are soon back
            self.ids = {}
        new = list(words.difference(self.ids))
        self.ids.update(zip(new, self.encode_words([" " + word for word in new]), strict=True))


def parts(text: str) -> list[str]:
    """The text in parts that a byte-level tokenizer treats each on its own; " ".join gives it back."""
    words = text.split(" ")
    begin, end = words[0] == "", len(words) - (words[-1] == "" and len(words) > 1)
    # The quick way suits text with single spaces and no other white space.
    if words[begin:end] == text.split() and "\u180e" not in text:
        return words
    return CUT.split(text)
