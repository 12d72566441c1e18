"""Words tokenised once: most of a text consists of words that were met before."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, count, islice, pairwise
from typing import Any

import numpy as np
import tokenizers as library
from numpy.typing import NDArray

from attnlab.data.tokenizers.sized import SizedTexts, size

Index = NDArray[np.int64]

MOST_CHARACTERS = 1 << 20
"""How much is remembered: memory stays flat, and after forgetting the frequent words are soon back."""

Parts = Callable[[str], list[str]]
"""A text in parts that are tokenised each on its own; " ".join gives the text back."""

Encode = Callable[[Sequence[str]], tuple[list[int], list[int], list[int]]]
"""The ids of all words in one list, how many each word has, and the byte of its word at which each ends."""


def at_every_space(text: str) -> list[str]:
    """Where no token holds a space, save in front."""
    return text.split(" ")


# GPT-2's pattern parts a text before every space that has a character other than white space before
# it or after it, whatever stands further off. (U+180E was white space in older Unicode.)
CUT = re.compile(r" (?=[^\s\u180e])|(?<=[^\s\u180e]) ")
INNER = re.compile(r"[\s\u180e] (?![^\s\u180e])")


def beside_words(text: str) -> list[str]:
    """Where white space that is not a single space is a token with others of its kind."""
    return text.split(" ") if INNER.search(text) is None else CUT.split(text)


def parts_of(tokenizer: library.Tokenizer) -> Parts | None:
    """How a text can be parted without changing its ids; None where every text must stay whole."""
    content = json.loads(tokenizer.to_str())
    if content["model"].get("dropout") or not all(token["special"] for token in content["added_tokens"]):
        return None
    splitter = content["pre_tokenizer"] or {}
    if splitter.get("type") == "ByteLevel":
        plain = splitter["use_regex"] and not splitter["add_prefix_space"] and content["normalizer"] is None
        return beside_words if plain else None
    by_character = content["normalizer"] is None or content["normalizer"]["type"] in (
        "BertNormalizer",
        "Lowercase",
    )
    return at_every_space if by_character and parts_at_spaces(splitter) else None


def parts_at_spaces(splitter: dict[str, Any]) -> bool:
    """Whether this splitter always parts a text before a space, and looks no further."""
    match splitter:
        case {"type": "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit"}:
            return True
        case {"type": "Metaspace", "prepend_scheme": "never", "split": True}:
            return True
        case {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated"}:
            return True
        case _:
            return False


class Words:
    """Ids of words, remembered; a text is put together from them. Exactly the ids of the whole text.

    A word is known by itself, without the space before it, so that millions of strings need not be
    made only to be looked up; a text's first word, which has no space before it, by a tuple of one.
    """

    def __init__(self, parts: Parts, encode: Encode):
        self.parts, self.encode_words = parts, encode
        self.forget()

    def forget(self) -> None:
        self.numbers: defaultdict[Any, int] = defaultdict(count().__next__)
        self.ids, self.ends = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.bounds, self.sizes = np.zeros(1, np.int64), np.zeros(0, np.int64)
        self.characters = 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts."""
        numbers, last = self._numbers(texts)
        tokens, borders = self._tokens(numbers, last)
        flat = self.ids[tokens].tolist()
        return [flat[begin:end] for begin, end in pairwise(borders.tolist())]

    def encode_sized(self, texts: Sequence[str]) -> SizedTexts:
        """The ids of texts with the bytes of each."""
        numbers, last = self._numbers(texts)
        tokens, borders = self._tokens(numbers, last)
        after = np.cumsum(self.sizes[numbers])
        ends = self.ends[tokens] + np.repeat(after - self.sizes[numbers], np.diff(self.bounds)[numbers])
        text_ends = after[last]
        text_begins = np.concatenate([[0], text_ends[:-1]])
        some = np.diff(borders) > 0
        ends[borders[1:][some] - 1] = text_ends[some]
        sizes = np.diff(ends, prepend=0)
        sizes[borders[:-1][some]] = ends[borders[:-1][some]] - text_begins[some]
        return SizedTexts(self.ids[tokens], sizes, borders)

    def _numbers(self, texts: Sequence[str]) -> tuple[Index, Index]:
        """The numbers of all words of all texts, each known by now, and the place of each text's last."""
        parted = [self.parts(text) for text in texts]
        for words in parted:
            words[0] = (words[0],)  # type: ignore[call-overload]
        if self.characters > MOST_CHARACTERS:
            self.forget()
        count = sum(map(len, parted))
        # A word that is met for the first time gets the next number just by being looked up.
        numbers = np.fromiter(map(self.numbers.__getitem__, chain.from_iterable(parted)), np.int64, count)
        try:
            self._learn()
        except BaseException:
            self.forget()  # numbers without ids are of no use
            raise
        return numbers, np.cumsum(np.fromiter(map(len, parted), np.int64, len(parted))) - 1

    def _learn(self) -> None:
        """Tokenise the words that have a number and no ids."""
        new = islice(self.numbers, len(self.bounds) - 1, None)
        words = [" " + word if isinstance(word, str) else word[0] for word in new]
        if not words:
            return
        ids, lengths, ends = self.encode_words(words)
        self.ids = np.concatenate([self.ids, np.array(ids, np.int64)])
        self.ends = np.concatenate([self.ends, np.array(ends, np.int64)])
        self.bounds = np.concatenate([self.bounds, self.bounds[-1] + np.cumsum(lengths)])
        self.sizes = np.concatenate([self.sizes, np.fromiter(map(size, words), np.int64, len(words))])
        self.characters += sum(map(len, words))

    def _tokens(self, numbers: Index, last: Index) -> tuple[Index, Index]:
        """Where the tokens of words stand in `ids`, and the borders of texts among them."""
        lengths = np.diff(self.bounds)[numbers]
        after = np.cumsum(lengths)
        shift = self.bounds[numbers] - (after - lengths)
        return np.arange(after[-1]) + np.repeat(shift, lengths), np.concatenate([[0], after[last]])
