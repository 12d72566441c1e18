"""How a tokenizer takes a text apart: its pieces, and of BPE the merges in the order they are applied."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from attnlab.data.inspection import shown
from attnlab.data.tokenizers.tokenizer import Tokenizer

Method = Literal["merges", "longest match", "likeliest", "lookup", "other"]
METHODS: Mapping[str, Method] = {
    "BPE": "merges",
    "WordPiece": "longest match",
    "Unigram": "likeliest",
    "WordLevel": "lookup",
}
"""By the library's name of a tokenizer's model."""


@dataclass(frozen=True)
class Piece:
    """A token of a text: as a person reads it, its id, and the characters (start, end) that it stands for.
    `score` is its log-probability where pieces are chosen by that."""

    text: str
    id: int
    start: int
    end: int
    unknown: bool
    score: float | None = None


@dataclass(frozen=True)
class Merge:
    """Two neighbours that become one; `rank` counts from 1, in the order in which merges were learned."""

    left: str
    right: str
    rank: int


@dataclass(frozen=True)
class MergedWord:
    """A word of a text from its characters or bytes on, with its merges in the order they are applied."""

    word: str
    parts: tuple[str, ...]
    merges: tuple[Merge, ...]


@dataclass(frozen=True)
class Segmentation:
    """A text as one tokenizer takes it apart. `words` are empty where it does not merge; `around` are the
    special tokens that a model reads before and after it."""

    method: Method
    pieces: tuple[Piece, ...]
    words: tuple[MergedWord, ...]
    around: tuple[tuple[str, ...], tuple[str, ...]]
    vocabulary: int
    exact: bool
    """Whether decoding gives the text back as it was."""

    @property
    def unknown(self) -> int:
        return sum(piece.unknown for piece in self.pieces)


def segmented(tokenizer: Tokenizer, text: str) -> Segmentation:
    """A text in pieces. Merges are told only where they lead to the very tokens that the library gives."""
    content = json.loads(tokenizer.inner.to_str())["model"]
    (encoding,) = tokenizer.encode_with_offsets([text])
    scores = dict(content["vocab"]) if content.get("type") == "Unigram" else {}
    pieces = tuple(
        Piece(
            text=shown(tokenizer, number),
            id=number,
            start=start,
            end=end,
            unknown=number == tokenizer.specials.unknown,
            score=scores.get(tokenizer.token(number)),
        )
        for number, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
    )
    method = METHODS.get(str(content.get("type")), "other")
    form = tokenizer.form
    around = tuple(tuple(map(tokenizer.token, ids)) for ids in (form.before, form.end))
    return Segmentation(
        method=method,
        pieces=pieces,
        words=merged_words(tokenizer, content, text) if method == "merges" else (),
        around=(around[0], around[1]),
        vocabulary=tokenizer.size,
        exact=tokenizer.decode(encoding.ids) == text,
    )


def merged_words(tokenizer: Tokenizer, content: Mapping[str, Any], text: str) -> tuple[MergedWord, ...]:
    """Each different word of a text, merged as the library merges it; none where it went another way."""
    replay = MergeReplay(content)
    normalizer, splitter = tokenizer.inner.normalizer, tokenizer.inner.pre_tokenizer
    normal = text if normalizer is None else normalizer.normalize_str(text)
    words = [(normal, (0, 0))] if splitter is None else splitter.pre_tokenize_str(normal)
    replayed = [replay.word(word) for word, _ in words]
    expected = [tokenizer.token(number) for number in tokenizer.encode(text)]
    if [part for _, parts in replayed for part in parts] != expected:
        return ()

    def read(token: str) -> str:
        number = tokenizer.id(token)
        return token if number is None else shown(tokenizer, number)

    decoder = tokenizer.inner.decoder
    different = dict(zip((word for word, _ in words), (merges for merges, _ in replayed), strict=True))
    return tuple(
        MergedWord(
            word if decoder is None else decoder.decode(replay.parts(word)),
            tuple(map(read, replay.parts(word))),
            tuple(Merge(read(a), read(b), replay.ranks[a, b] + 1) for a, b in merges),
        )
        for word, merges in different.items()
    )


class MergeReplay:
    """BPE by its definition: of all neighbours the pair that was learned first becomes one, and so on."""

    def __init__(self, content: Mapping[str, Any]):
        self.vocabulary: Mapping[str, int] = content["vocab"]
        pairs = [
            tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in content["merges"]
        ]
        self.ranks: dict[tuple[str, ...], int] = {pair: rank for rank, pair in enumerate(pairs)}
        self.prefix: str = content.get("continuing_subword_prefix") or ""
        self.suffix: str = content.get("end_of_word_suffix") or ""
        self.whole: bool = bool(content.get("ignore_merges"))
        self.falls_back: bool = bool(content.get("byte_fallback"))
        self.unknown: str = content.get("unk_token") or ""

    @cached_property
    def bytes(self) -> Sequence[str]:
        return [f"<0x{number:02X}>" for number in range(256)]

    def parts(self, word: str) -> list[str]:
        """A word in characters; in bytes where there is no token for one."""
        characters = [self.prefix * (place > 0) + character for place, character in enumerate(word)]
        if characters:
            characters[-1] += self.suffix
        parts: list[str] = []
        for part, character in zip(characters, word, strict=True):
            if part in self.vocabulary or not (self.falls_back or self.unknown):
                parts.append(part)
            elif self.falls_back:
                parts += [self.bytes[byte] for byte in character.encode()]
            else:
                parts.append(self.unknown)
        return parts

    def word(self, word: str) -> tuple[list[tuple[str, str]], list[str]]:
        """The merges of a word in their order, and the pieces that are left."""
        if self.whole and word in self.vocabulary:
            return [], [word]
        parts, merges = self.parts(word), list[tuple[str, str]]()
        while len(parts) > 1:
            pair = min(pairwise(parts), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if pair not in self.ranks:
                break
            place = list(pairwise(parts)).index(pair)
            parts[place : place + 2] = [pair[0] + pair[1].removeprefix(self.prefix)]
            merges.append(pair)
        return merges, parts
