"""A text as tokenizers take it apart, side by side: pieces, ids, merges and what is unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnlab.config.wording import count_of
from attnlab.data.tokenizers.segmentation import MergedWord, Method, Piece, Segmentation
from attnlab.documents.nodes import (
    Below,
    Heading,
    Inline,
    Marked,
    MarkedSpan,
    Node,
    Sentence,
    Table,
    TableColumn,
    Tone,
    listed,
    muted,
    toned,
)
from attnlab.explain.explanation import Explanation

SPACE = "␣"
"""A space at the border of a piece, where it would not be seen."""
METHODS: Mapping[Method, str] = {
    "merges": "characters or bytes, merged in the order in which merges were learned",
    "longest match": "in each word, from the left, the longest piece that is in the vocabulary",
    "likeliest": "the pieces whose probabilities have the largest product",
    "lookup": "each word or character is looked up",
    "other": "by a rule of its own",
}


@dataclass(frozen=True)
class TokenizedText(Explanation):
    """One text, and how each tokenizer takes it apart."""

    text: str
    tokenizers: Mapping[str, Segmentation]

    kind = "tokenizer"

    @property
    def headline(self) -> str:
        counts = [f"{name} {count_of(len(one.pieces), 'token')}" for name, one in self.tokenizers.items()]
        unknown = [f"{one.unknown} unknown to {name}" for name, one in self.tokenizers.items() if one.unknown]
        return f"{', '.join(counts)}{'; ' * bool(unknown)}{', '.join(unknown)}."

    def parts(self) -> list[Node]:
        spans = [Marked(marked_spans(name, one)) for name, one in self.tokenizers.items()]
        merged = [(name, one) for name, one in self.tokenizers.items() if one.words]
        merges = [node for name, one in merged for node in merge_nodes(name, one.words)]
        return [*spans, self.by_word(), self.of_each(), *merges]

    def by_word(self) -> Table:
        """Each word of the text with its pieces, and their ids below."""
        words = [(match.start(), match.end()) for match in re.finditer(r"\S+", self.text)]
        parted = [pieces_by_word(one.pieces, words) for one in self.tokenizers.values()]
        rows: list[Sequence[Inline]] = [
            (self.text[start:end], *(word_cell(pieces[number]) for pieces in parted))
            for number, (start, end) in enumerate(words)
        ]
        return Table(["word", *self.tokenizers], rows, title="Pieces and their ids")

    def of_each(self) -> Table:
        rows = [
            (
                toned(Tone.NAME, name),
                one.vocabulary,
                len(one.pieces),
                toned(Tone.WARNING, str(one.unknown)) if one.unknown else "none",
                "yes" if one.exact else "no",
                METHODS[one.method],
            )
            for name, one in self.tokenizers.items()
        ]
        names = ("size", "tokens", "unknown")
        columns = [
            TableColumn("tokenizer", whole=True),
            *(TableColumn(name, right=True) for name in names),
            TableColumn("round trip", definition="whether decoding gives the text back as it was"),
            TableColumn("how a text is taken apart"),
        ]
        return Table(columns, rows)

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "tokenizers": {name: asdict(one) for name, one in self.tokenizers.items()}}


def marked_spans(name: str, segmentation: Segmentation) -> list[MarkedSpan]:
    """The pieces in two shades by turns; unknown ones stand out, special tokens around them are muted."""
    before, after = segmentation.around
    return [
        MarkedSpan(f"{name}: ", tone=Tone.STRONG),
        *(MarkedSpan(token, tone=Tone.MUTED) for token in before),
        *(
            MarkedSpan(piece.text, tone=Tone.WARNING if piece.unknown else None, shade=number % 2)
            for number, piece in enumerate(segmentation.pieces)
        ),
        *(MarkedSpan(token, tone=Tone.MUTED) for token in after),
    ]


def pieces_by_word(pieces: Sequence[Piece], words: Sequence[tuple[int, int]]) -> list[list[Piece]]:
    """The pieces of each word: a piece belongs to the word in which it ends, or that comes after it."""
    parted: list[list[Piece]] = [[] for _ in words]
    for piece in pieces:
        number = next((n for n, (_, end) in enumerate(words) if piece.end <= end), len(words) - 1)
        parted[number].append(piece)
    return parted


def word_cell(pieces: Sequence[Piece]) -> Inline:
    """Pieces with a dot between them, and their ids below."""
    if not pieces:
        return muted("–")
    shown = [toned(Tone.WARNING, piece.text) if piece.unknown else bordered(piece.text) for piece in pieces]
    return (listed(shown, " · "), Below(" ".join(str(piece.id) for piece in pieces)))


def bordered(text: str) -> str:
    """A piece with the spaces at its borders, which would not be seen, as a sign."""
    inner = text.strip(" ")
    left = len(text) - len(text.lstrip(" "))
    return SPACE * left + inner + SPACE * (len(text) - left - len(inner))


def merge_nodes(name: str, words: Sequence[MergedWord]) -> list[Node]:
    """The merges of each word, in the order they are applied, with the number of each among all."""
    rows = [
        (
            bordered(word.word),
            listed([f"{bordered(m.left)} + {bordered(m.right)} ({m.rank:,})" for m in word.merges])
            or muted("none"),
        )
        for word in words
    ]
    return [
        Heading(f"Merges of {name}"),
        Table(["word", "merges, in the order they are applied"], rows),
        Sentence(
            "In brackets the number of the merge, in the order in which merges were learned: of all "
            "neighbours the pair with the lowest number becomes one first.",
            "fine",
        ),
    ]
