"""The columns that rows and batches are made of, each with its kind, by which it is stored, collated, cut and
hashed. A column of one's own is one entry of COLUMNS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

import numpy as np


class ColumnKind(StrEnum):
    """What a row has of a column."""

    TOKENS = "an id a token"
    NUMBERS = "a number a token"
    VECTORS = "a vector a token"
    PIXELS = "the bytes of a vector, for some tokens"
    VALUE = "a number a row"
    FLAGS = "flags a row"
    PLACE = "the place of a token"
    PREFIX = "how many of the first tokens"
    SECOND = "a second row of ids"
    SECOND_NUMBERS = "a number for each token of the second row"


RAGGED = frozenset(
    {
        ColumnKind.TOKENS,
        ColumnKind.NUMBERS,
        ColumnKind.VECTORS,
        ColumnKind.PIXELS,
        ColumnKind.FLAGS,
        ColumnKind.SECOND,
        ColumnKind.SECOND_NUMBERS,
    }
)
"""Kinds of which rows have different numbers of entries, stored one after the other with their bounds."""
BY_TOKEN = frozenset({ColumnKind.TOKENS, ColumnKind.NUMBERS, ColumnKind.VECTORS, ColumnKind.PREFIX})
"""Kinds that are (B,T) or (B,T,W) in a batch."""


@dataclass(frozen=True)
class Column:
    """A column by its name. `empty` is what padding holds; ids are padded with the tokenizer's own. `storage`
    is the type in memory and on disk: the smallest for a vocabulary, or for the values themselves, or a type.
    """

    name: str
    kind: ColumnKind
    empty: int = 0
    storage: type[np.generic] | Literal["vocabulary", "smallest"] = np.int32

    def dtype(self, vocabulary: int) -> type[np.generic]:
        """The type that its values are read into."""
        if self.storage == "vocabulary":
            return np.uint16 if vocabulary <= 1 << 16 else np.uint32
        return np.int32 if self.storage == "smallest" else self.storage

    @property
    def batched(self) -> tuple[str, ...]:
        """Its names in a batch: a second row has a mask of its padding, and pixels are vectors."""
        if self.kind is ColumnKind.PIXELS:
            return ("vectors",)
        second = self.kind is ColumnKind.SECOND
        return (f"{self.name}_ids", f"{self.name}_real") if second else (self.name,)


_K = ColumnKind
COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column("ids", _K.TOKENS, storage="vocabulary"),
        Column("example", _K.VALUE, storage=np.int64),
        Column("sizes", _K.NUMBERS, storage="smallest"),
        Column("types", _K.NUMBERS, storage=np.uint8),
        Column("source", _K.PREFIX, storage=np.int64),
        Column("target", _K.SECOND, storage="vocabulary"),
        Column("target_sizes", _K.SECOND_NUMBERS, storage="smallest"),
        Column("label", _K.VALUE, storage=np.int64),
        Column("labels", _K.FLAGS, storage=np.uint8),
        Column("number", _K.VALUE, storage=np.float64),
        Column("words", _K.NUMBERS, empty=-1),
        Column("tags", _K.NUMBERS, empty=-100),
        Column("start", _K.PLACE, storage=np.int64),
        Column("end", _K.PLACE, storage=np.int64),
        Column("char_start", _K.NUMBERS, empty=-1),
        Column("char_end", _K.NUMBERS, empty=-1),
        Column("vectors", _K.VECTORS, storage=np.float32),
        Column("patch", _K.NUMBERS, storage=np.uint16),
        Column("pixels", _K.PIXELS, storage=np.uint8),
    )
}
"""In the order in which they are stored and hashed: new ones come last."""
OF_LAYOUT = ("ids", "real", "rows", "sizes", "position", "document")
"""What every batch begins with: its tokens, and how rows lie in it."""


def batch_names() -> tuple[str, ...]:
    """All names of a batch, in the order in which they are hashed."""
    own = (name for column in COLUMNS.values() for name in column.batched)
    return (*OF_LAYOUT, *dict.fromkeys(name for name in own if name not in ("example", *OF_LAYOUT)))


def kind_in_batch(name: str) -> ColumnKind | None:
    """The kind of a batch's column; none of what is of its layout."""
    return next((column.kind for column in COLUMNS.values() if name in column.batched), None)


class NamedColumns:
    """Columns by name, which are attributes too; one that the data does not carry is None."""

    __slots__ = ("columns",)
    columns: Mapping[str, Any]

    def known(self) -> tuple[str, ...]:
        """The names that it may have."""
        return tuple(COLUMNS)

    def changed(self, **columns: Any) -> Self:
        """The same with some columns otherwise."""
        return type(self)(**{**self.columns, **columns})

    def __getattr__(self, name: str) -> Any:
        if name in ("columns", "known") or name.startswith("__"):
            raise AttributeError(name)
        if name not in self.columns and name not in self.known():
            raise AttributeError(f"{type(self).__name__} has no column {name}; it may have: {self.known()}.")
        return self.columns.get(name)


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
    the ids. `patch` numbers the patches of a picture from 1, row by row, 0 for tokens that are none, and
    `pixels` (N, W) are the bytes of those N patches, in the order of their tokens: the vectors of a batch.
    """

    __slots__ = ()

    def __init__(self, ids: Sequence[int], example: int, sizes: Sequence[int], **columns: Any):
        given = {"ids": ids, "example": example, "sizes": sizes, **columns}
        self.columns = {name: values for name, values in given.items() if values is not None}
