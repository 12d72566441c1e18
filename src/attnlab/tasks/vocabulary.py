"""What tasks know of the tokenizer: sizes, special tokens, and where words begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.config.values import ConfigError
from attnlab.data.tokenizers.tokenizer import Tokenizer

Flags = NDArray[np.bool_]
Ids = NDArray[np.int64]

SPACES = ("Ġ", "▁")
"""How byte-level and SentencePiece vocabularies write the space that begins a word."""


@dataclass(frozen=True)
class Vocabulary:
    """Ids of a tokenizer by their role; a role that no token fills is None.

    `opens` and `closes` (V,) say which tokens begin and end with a character of a word: a token
    that opens so goes on with the word of one that closes so. Where every token is a word of its
    own, no token opens.
    """

    size: int
    pad: int
    unknown: int | None
    start: int | None
    stop: int | None
    separator: int | None
    mask: int | None
    opens: Flags
    closes: Flags

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        s = tokenizer.specials
        texts = [tokenizer.token(i) for i in range(tokenizer.size)]
        opens, closes = word_characters(texts)
        for special in (i for i in vars(s).values() if i is not None):
            opens[special] = closes[special] = False
        roles = s.unknown, s.start, s.stop, s.separator, s.mask
        return cls(tokenizer.size, tokenizer.pad, *roles, opens, closes)

    @classmethod
    def draft(cls, size: int) -> Vocabulary:
        """A vocabulary that is not there yet, with every role filled: to check a config by."""
        nothing = np.zeros(size, bool)
        return cls(size, 0, 1, 2, 3, 4, 5, nothing, nothing)

    def needed(self, role: str, why: str) -> int:
        """The id of a role that a task cannot do without."""
        token: int | None = getattr(self, role)
        if token is None:
            raise ConfigError(
                f"This tokenizer has no {role} token, which {why}; train one here "
                '(data.tokenizer = "bpe"), or add the token to its tokenizer.json.'
            )
        return token

    @property
    def special(self) -> Flags:
        """(V,) True for the special tokens, which stand for no text, or for none that could be named."""
        flags = np.zeros(self.size, bool)
        ids = (self.pad, self.unknown, self.start, self.stop, self.separator, self.mask)
        flags[[i for i in ids if i is not None and i < self.size]] = True
        return flags

    def continues(self, ids: Ids) -> Flags:
        """(B,T) True where a token goes on with the word of the one before it."""
        result = np.zeros(ids.shape, bool)
        result[:, 1:] = self.opens[ids[:, 1:]] & self.closes[ids[:, :-1]]
        return result


def word_characters(texts: list[str]) -> tuple[Flags, Flags]:
    """Which tokens begin, and which end, inside a word, read off how the vocabulary writes words."""
    if any(text.startswith("##") and len(text) > 2 for text in texts):  # WordPiece
        opens = [text.startswith("##") and len(text) > 2 for text in texts]
        return np.array(opens, bool), np.ones(len(texts), bool)
    if not any(text.startswith(SPACES) for text in texts):  # whole words
        return np.zeros(len(texts), bool), np.ones(len(texts), bool)
    opens = [bool(text) and text[0].isalnum() and not text.startswith(SPACES) for text in texts]
    closes = [bool(text) and text[-1].isalnum() and not text.endswith(SPACES) for text in texts]
    return np.array(opens, bool), np.array(closes, bool)
