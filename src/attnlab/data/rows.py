"""Encoded rows as columns: flat arrays, in memory or mapped from disk, read in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.data.columns import COLUMNS, RAGGED, Column, ColumnKind, Row
from attnlab.data.errors import DataError

Stored = NDArray[Any]
Columns = dict[str, Stored]


class Rows:
    """All rows of a split. Lengths are in memory; the rest may be memory-mapped parts."""

    def __init__(self, parts: Sequence[Mapping[str, Stored]], *, fingerprint: str):
        self.parts = list(parts)
        self.fingerprint = fingerprint
        self.ends = np.cumsum([len(part["example"]) for part in parts], dtype=np.int64)
        self.columns = tuple(parts[0]) if parts else ()
        self.lengths = self._lengths("ids")
        self.target_lengths = self._lengths("target") if self.has("target") else None
        self.plans: dict[str, Any] = {}  # the last orders of these rows, which several loaders go through

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def sizes(self) -> tuple[NDArray[np.int64], ...]:
        """The lengths of all rows, and of their targets where there are any: what batching goes by."""
        return (self.lengths,) if self.target_lengths is None else (self.lengths, self.target_lengths)

    def has(self, column: str) -> bool:
        return column in self.columns

    def locate(self, index: int) -> tuple[Mapping[str, Stored], int]:
        """The part that holds a row, and the row's number in it."""
        part = int(np.searchsorted(self.ends, index, side="right"))
        return self.parts[part], int(index - (self.ends[part - 1] if part else 0))

    def ragged(self, column: str, index: int) -> Stored:
        """A row's stretch of a column, such as its ids."""
        part, row = self.locate(index)
        bounds = part[f"{column}.bounds"]
        return part[column][bounds[row] : bounds[row + 1]]

    def scalar(self, column: str, index: int) -> int:
        part, row = self.locate(index)
        return int(part[column][row])

    def number(self, column: str, index: int) -> float:
        part, row = self.locate(index)
        return float(part[column][row])

    def scalars(self, column: str) -> NDArray[np.int64]:
        """A scalar column over all rows."""
        columns = [part[column] for part in self.parts]
        return np.concatenate(columns).astype(np.int64) if columns else np.zeros(0, np.int64)

    def _lengths(self, column: str) -> NDArray[np.int64]:
        lengths = np.empty(len(self), np.int64)  # filled in place: of millions of rows one copy is enough
        for part, end in zip(self.parts, self.ends, strict=True):
            sizes = np.diff(part[f"{column}.bounds"])
            lengths[end - len(sizes) : end] = sizes
        return lengths


def concatenated(parts: Sequence[Columns]) -> Columns:
    """Parts one after the other, as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts:
        if odd := sorted(part.keys() ^ first.keys()):
            raise DataError(f"Some rows have no {odd[0]}, and others have one; give it to all, or to none.")
    return {name: _concatenated(name, [part[name] for part in parts]) for name in first}


def _concatenated(name: str, columns: Sequence[Stored]) -> Stored:
    if not name.endswith(".bounds"):
        return np.concatenate(columns)
    ends = np.cumsum([0, *(column[-1] for column in columns)])
    moved = [column[1:] + end for column, end in zip(columns, ends[:-1], strict=True)]
    return np.concatenate([columns[0][:1], *moved])


def in_memory(rows: Iterable[Row], *, vocabulary: int, fingerprint: str = "") -> Rows:
    """Rows held in memory: for small corpora and for tests."""
    listed = list(rows)
    return Rows([columns_of(listed, vocabulary)] if listed else [], fingerprint=fingerprint)


def columns_of(rows: Sequence[Row], vocabulary: int) -> dict[str, Stored]:
    """Rows as arrays: values one a row, ragged ones flat with the bounds of each row."""
    if odd := sorted({name for row in rows for name in row.columns} - COLUMNS.keys()):
        raise DataError(f"Rows have {odd[0]}, which is not a column; add it to attnlab.data.columns.COLUMNS.")
    columns: dict[str, Stored] = {}
    for column in COLUMNS.values():
        values = [row.columns.get(column.name) for row in rows]
        missing = sum(value is None for value in values)
        if missing == len(values):
            continue
        if missing:
            raise DataError(
                f"{missing:,} of {len(values):,} rows have no {column.name}, and the others have one; "
                "give it to all, or to none."
            )
        if column.kind in RAGGED:
            columns |= ragged(column, values, vocabulary)
        else:
            columns[column.name] = np.array(values, column.dtype(vocabulary))
    return columns


def ragged(column: Column, values: Sequence[Any], vocabulary: int) -> dict[str, Stored]:
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=bounds[1:])
    dtype = column.dtype(vocabulary)
    if column.kind in (ColumnKind.VECTORS, ColumnKind.PIXELS):
        flat: Stored = np.concatenate([np.asarray(value, dtype) for value in values])
    else:
        flat = np.fromiter(chain.from_iterable(values), dtype, count=bounds[-1])
    if column.storage == "smallest":  # hardly any token stands for more than 255 bytes
        flat = flat.astype(np.min_scalar_type(int(flat.max(initial=0))))
    return {column.name: flat, f"{column.name}.bounds": bounds}
