"""A batch: tensors, and how much of them is padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.data.columns import COLUMNS, Column, ColumnKind, NamedColumns, batch_names
from attnlab.data.errors import DataError
from attnlab.data.images.patches import vectors_of
from attnlab.data.rows import Rows

Side = Literal["right", "left"]
Index = NDArray[np.int64]


class Batch(NamedColumns):
    """What a step works on. B rows of T places; a column that the data does not carry is None.

    ids (B, T) int64, real (B, T) bool: False where a place is only padding. position (B, T) is
    there when it is not 0, 1, 2, …: it restarts in each packed document and skips left padding.
    document (B, T) numbers the packed documents of a row from 1, 0 is padding. types (B, T) are
    segment ids, source (B, T) bool marks the source of a prefix. target_ids and target_real
    (B, U) are what an encoder-decoder is to write. label, start, end (B,) are answers, labels (B, C)
    is 1 for each class that a row has, number (B,) what it is labelled with. words (B, T) are the word of
    each token, −1 for none, tags (B, T) the number of a word's tag at its first token, −100 elsewhere.
    char_start and char_end (B, T) place every token of a passage in its text, −1 for all others.
    sizes (B, T) and target_sizes (B, U) are the UTF-8 bytes of text that each token stands for, 0 for
    special tokens and padding. vectors (B, T, W) float32 are read beside the ids, 0 for padding; those of
    pixels are from −1 (black) to 1. patch (B, T) numbers the patches of a picture from 1, 0 for other tokens.
    rows (N,) are the numbers of the encoded rows inside, in order.
    """

    __slots__ = ()

    def __init__(self, **columns: Tensor | None):
        names = self.known()
        if odd := sorted(columns.keys() - {*names}):
            raise ValueError(f"{odd[0]} is not a column of a batch; its columns are {', '.join(names)}.")
        self.columns = {name: column for name in names if (column := columns.get(name)) is not None}

    def known(self) -> tuple[str, ...]:
        return batch_names()

    @property
    def ids(self) -> Tensor:
        return self.columns["ids"]

    @property
    def real(self) -> Tensor:
        return self.columns["real"]

    @property
    def rows(self) -> Tensor:
        return self.columns["rows"]

    @property
    def sizes(self) -> Tensor:
        return self.columns["sizes"]

    @property
    def tokens(self) -> int:
        """Tokens that are not padding, targets included."""
        return sum(int(mask.sum()) for mask in (self.real, self.target_real) if mask is not None)

    @property
    def places(self) -> int:
        return sum(mask.numel() for mask in (self.real, self.target_real) if mask is not None)

    @property
    def waste(self) -> float:
        """The share of places that hold padding."""
        return 1 - self.tokens / self.places if self.places else 0.0

    @property
    def owner(self) -> Tensor:
        """The number of the encoded row that each place belongs to: (B,T) when packed, else (B,1).

        Padding of a packed line counts to the line's last row.
        """
        if self.document is None:
            return self.rows[:, None]
        last = self.document.amax(1, keepdim=True)
        within = torch.where(self.document > 0, self.document, last)
        return self.rows[last.cumsum(0) - last + within - 1]

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """The same batch on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin(self) -> Batch:
        """The same batch in page-locked memory, so that copies to a GPU can overlap with work."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(**{name: change(column) for name, column in self.columns.items()})


def collate(
    rows: Rows, places: Sequence[Index], *, pad: int, side: Side = "right", packed: bool = False
) -> Batch:
    """A batch of some rows. Each entry of `places` is one row of the batch: the rows packed in it."""
    layout = Layout(rows, places, side, pad)
    columns: dict[str, Tensor] = {
        "rows": torch.from_numpy(layout.numbers.copy()),
        "real": layout.each(lambda row, n: np.ones(n, bool), False),
    }
    if packed or side == "left":
        columns["position"] = layout.each(lambda row, n: np.arange(n), 0)
    if packed:
        columns["document"] = layout.documents()
    for column in COLUMNS.values():
        if rows.has(column.name) and column.name != "example":
            columns |= COLLATED[column.kind](layout, column)
    return Batch(**columns)


class Layout:
    """Where each encoded row stands in the batch."""

    def __init__(self, rows: Rows, places: Sequence[Index], side: Side, pad: int):
        self.rows, self.places, self.pad = rows, places, pad
        self.numbers = np.concatenate(places) if len(places) else np.zeros(0, np.int64)
        used = [int(rows.lengths[entry].sum()) for entry in places]
        self.shape = (len(places), max(used, default=0))
        self.spans: list[tuple[int, int, int, int]] = []  # batch row, begin, length, encoded row
        for line, entry in enumerate(places):
            begin = self.shape[1] - used[line] if side == "left" else 0
            for row in entry:
                length = int(rows.lengths[row])
                self.spans.append((line, begin, length, int(row)))
                begin += length
        self.begins = [begin for _, begin, _, _ in self.spans]

    def each(self, values: Callable[[int, int], NDArray[np.generic]], empty: int | bool) -> Tensor:
        """A (B, T) tensor filled row by row with `values(row, length)`, with `empty` elsewhere."""
        out = np.full(self.shape, empty, bool if isinstance(empty, bool) else np.int64)
        for line, begin, length, row in self.spans:
            out[line, begin : begin + length] = values(row, length)
        return torch.from_numpy(out)

    def documents(self) -> Tensor:
        numbers = {int(row): n for entry in self.places for n, row in enumerate(entry, start=1)}
        return self.each(lambda row, n: np.full(n, numbers[row]), 0)


# ---------------------------------------------------------------- one function a kind
def tokens(layout: Layout, column: Column) -> dict[str, Tensor]:
    return {column.name: layout.each(lambda row, n: layout.rows.ragged(column.name, row), layout.pad)}


def numbers(layout: Layout, column: Column) -> dict[str, Tensor]:
    return {column.name: layout.each(lambda row, n: layout.rows.ragged(column.name, row), column.empty)}


def vectors(layout: Layout, column: Column) -> dict[str, Tensor]:
    rows = [layout.rows.ragged(column.name, row) for row in layout.numbers]
    width = {row.shape[-1] for row in rows}
    if len(width) != 1:
        raise DataError(f"The {column.name} of rows have {sorted(width)} numbers each; give all as many.")
    out = np.full((*layout.shape, *width), column.empty, rows[0].dtype)
    for (line, begin, length, _), held in zip(layout.spans, rows, strict=True):
        if len(held) != length:
            raise DataError(f"A row of {length} tokens has {len(held)} {column.name}; give one for each.")
        out[line, begin : begin + length] = held
    return {column.name: torch.from_numpy(out)}


def pixels(layout: Layout, column: Column) -> dict[str, Tensor]:
    """Bytes as numbers from −1 to 1 at the tokens that are patches, 0 at all others."""
    rows = [layout.rows.ragged(column.name, row) for row in layout.numbers]
    width = {row.shape[-1] for row in rows}
    if len(width) != 1:
        raise DataError(f"The patches of rows have {sorted(width)} bytes each; give all as many.")
    out = np.zeros((*layout.shape, *width), np.float32)
    for (line, begin, length, row), held in zip(layout.spans, rows, strict=True):
        places = np.flatnonzero(layout.rows.ragged("patch", row))
        if len(places) != len(held):
            raise DataError(f"A row with {len(places)} patches has the pixels of {len(held)}; give one each.")
        out[line, begin : begin + length][places] = vectors_of(held)
    return {name: torch.from_numpy(out) for name in column.batched}


def value(layout: Layout, column: Column) -> dict[str, Tensor]:
    read = layout.rows.number if column.storage is np.float64 else layout.rows.scalar
    dtype = torch.float64 if column.storage is np.float64 else torch.int64
    return {column.name: torch.tensor([read(column.name, row) for row in layout.numbers], dtype=dtype)}


def flags(layout: Layout, column: Column) -> dict[str, Tensor]:
    stacked = np.stack([layout.rows.ragged(column.name, row) for row in layout.numbers])
    return {column.name: torch.from_numpy(stacked)}


def place(layout: Layout, column: Column) -> dict[str, Tensor]:
    """In the batch's own places, so that left padding moves it."""
    places = (layout.rows.scalar(column.name, row) for row in layout.numbers)
    moved = [at + begin for at, begin in zip(places, layout.begins, strict=True)]
    return {column.name: torch.tensor(moved)}


def prefix(layout: Layout, column: Column) -> dict[str, Tensor]:
    """The count as a mask."""
    count = layout.rows.scalar
    return {column.name: layout.each(lambda row, n: np.arange(n) < count(column.name, row), False)}


def second(layout: Layout, column: Column) -> dict[str, Tensor]:
    """Another row, and where it is no padding."""
    ids, real = second_row(layout, column, layout.pad)
    return dict(zip(column.batched, (ids, real), strict=True))


def second_numbers(layout: Layout, column: Column) -> dict[str, Tensor]:
    return {column.name: second_row(layout, column, column.empty)[0]}


def second_row(layout: Layout, column: Column, empty: int) -> tuple[Tensor, Tensor]:
    """What there is of a second row (B, U), and where: always padded on the right, since it is written left
    to right."""
    rows = [layout.rows.ragged(column.name, row) for row in layout.numbers]
    shape = (len(rows), max(map(len, rows), default=0))
    filled, real = np.full(shape, empty, np.int64), np.zeros(shape, bool)
    for line, values in enumerate(rows):
        filled[line, : len(values)] = values
        real[line, : len(values)] = True
    return torch.from_numpy(filled), torch.from_numpy(real)


COLLATED: dict[ColumnKind, Callable[[Layout, Column], dict[str, Tensor]]] = {
    ColumnKind.TOKENS: tokens,
    ColumnKind.NUMBERS: numbers,
    ColumnKind.VECTORS: vectors,
    ColumnKind.PIXELS: pixels,
    ColumnKind.VALUE: value,
    ColumnKind.FLAGS: flags,
    ColumnKind.PLACE: place,
    ColumnKind.PREFIX: prefix,
    ColumnKind.SECOND: second,
    ColumnKind.SECOND_NUMBERS: second_numbers,
}
