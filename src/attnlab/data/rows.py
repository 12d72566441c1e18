"""Encoded rows as columns: flat arrays, in memory or mapped from disk, read in any order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.data.errors import DataError
from attnlab.data.row import Row

Column = NDArray[Any]
Columns = dict[str, Column]
SCALAR = ("example", "source", "label", "start", "end")
FLOATING = ("number",)


class Rows:
    """All rows of a split. Lengths are in memory; the rest may be memory-mapped parts."""

    def __init__(self, parts: Sequence[Mapping[str, Column]], *, fingerprint: str):
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

    def locate(self, index: int) -> tuple[Mapping[str, Column], int]:
        """The part that holds a row, and the row's number in it."""
        part = int(np.searchsorted(self.ends, index, side="right"))
        return self.parts[part], int(index - (self.ends[part - 1] if part else 0))

    def ragged(self, column: str, index: int) -> Column:
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
        found = [part[column] for part in self.parts]
        return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)

    def _lengths(self, column: str) -> NDArray[np.int64]:
        lengths = np.empty(len(self), np.int64)  # filled in place: of millions of rows one copy is enough
        for part, end in zip(self.parts, self.ends, strict=True):
            found = np.diff(part[f"{column}.bounds"])
            lengths[end - len(found) : end] = found
        return lengths


def joined(parts: Sequence[Columns]) -> Columns:
    """Parts one after the other, as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts:
        if odd := sorted(part.keys() ^ first.keys()):
            raise DataError(f"Some rows have no {odd[0]}, and others have one; give it to all, or to none.")
    return {name: _joined(name, [part[name] for part in parts]) for name in first}


def _joined(name: str, columns: Sequence[Column]) -> Column:
    if not name.endswith(".bounds"):
        return np.concatenate(columns)
    ends = np.cumsum([0, *(column[-1] for column in columns)])
    moved = [column[1:] + end for column, end in zip(columns, ends[:-1], strict=True)]
    return np.concatenate([columns[0][:1], *moved])


def in_memory(rows: Iterable[Row], *, vocabulary: int, fingerprint: str = "") -> Rows:
    """Rows held in memory: for small corpora and for tests."""
    held = list(rows)
    return Rows([columns_of(held, vocabulary)] if held else [], fingerprint=fingerprint)


def columns_of(rows: Sequence[Row], vocabulary: int) -> dict[str, Column]:
    """Rows as arrays: scalars one a row, ragged ones flat with the bounds of each row."""
    columns: dict[str, Column] = {}
    for field in dataclasses.fields(Row):
        values = [getattr(row, field.name) for row in rows]
        if all(value is None for value in values):
            continue
        if None in values:
            missing = sum(value is None for value in values)
            raise DataError(
                f"{missing:,} of {len(values):,} rows have no {field.name}, and the others have one; "
                "give it to all, or to none."
            )
        if field.name in SCALAR:
            columns[field.name] = np.array(values, np.int64)
        elif field.name in FLOATING:
            columns[field.name] = np.array(values, np.float64)
        else:
            columns |= ragged(field.name, values, vocabulary)
    return columns


def ragged(name: str, values: Sequence[Sequence[int]], vocabulary: int) -> dict[str, Column]:
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=bounds[1:])
    flat = np.fromiter(chain.from_iterable(values), dtype_of(name, vocabulary), count=bounds[-1])
    if name in ("sizes", "target_sizes"):  # hardly any token stands for more than 255 bytes
        flat = flat.astype(np.min_scalar_type(int(flat.max(initial=0))))
    return {name: flat, f"{name}.bounds": bounds}


def dtype_of(name: str, vocabulary: int) -> type[np.generic]:
    """The smallest type that holds every value that a column may have."""
    if name in ("ids", "target"):
        return np.uint16 if vocabulary <= 1 << 16 else np.uint32
    return np.uint8 if name in ("types", "labels") else np.int32
