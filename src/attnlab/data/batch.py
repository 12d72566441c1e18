"""A batch: tensors, and how much of them is padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.data.rows import Rows

Side = Literal["right", "left"]
Index = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a step works on. B rows of T places; a field that the data does not carry is None.

    ids (B, T) int64, real (B, T) bool: False where a place is only padding. position (B, T) is
    there when it is not 0, 1, 2, …: it restarts in each packed document and skips left padding.
    document (B, T) numbers the packed documents of a row from 1, 0 is padding. types (B, T) are
    segment ids, source (B, T) bool marks the source of a prefix. target_ids and target_real
    (B, U) are what an encoder-decoder is to write. label, start, end (B,) are answers, labels (B, C)
    is 1 for each class that a row has, number (B,) what it is labelled with. char_start and char_end (B, T)
    place every token of a passage in its text, −1 for all others. sizes (B, T)
    and target_sizes (B, U) are the UTF-8 bytes of text that each token stands for, 0 for special tokens
    and padding. rows (N,) are the numbers of the encoded rows inside, in order.
    """

    ids: Tensor
    real: Tensor
    rows: Tensor
    sizes: Tensor
    position: Tensor | None = None
    document: Tensor | None = None
    types: Tensor | None = None
    source: Tensor | None = None
    target_ids: Tensor | None = None
    target_real: Tensor | None = None
    target_sizes: Tensor | None = None
    label: Tensor | None = None
    labels: Tensor | None = None
    number: Tensor | None = None
    start: Tensor | None = None
    end: Tensor | None = None
    char_start: Tensor | None = None
    char_end: Tensor | None = None

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
        held: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        tensors: dict[str, Any] = {k: change(v) for k, v in held.items() if isinstance(v, Tensor)}
        return dataclasses.replace(self, **tensors)


def collate(
    rows: Rows, places: Sequence[Index], *, pad: int, side: Side = "right", packed: bool = False
) -> Batch:
    """A batch of some rows. Each entry of `places` is one row of the batch: the rows packed in it."""
    layout = Layout(rows, places, side)
    numbers = np.concatenate(places) if len(places) else np.zeros(0, np.int64)
    fields: dict[str, Tensor] = {
        "ids": layout.filled("ids", pad),
        "real": layout.each(lambda row, n: np.ones(n, bool), False),
        "sizes": layout.filled("sizes", 0),
    }
    if packed or side == "left":
        fields["position"] = layout.each(lambda row, n: np.arange(n), 0)
    if packed:
        fields["document"] = layout.documents()
    if rows.has("types"):
        fields["types"] = layout.filled("types", 0)
    if rows.has("source"):
        fields["source"] = layout.each(lambda row, n: np.arange(n) < rows.scalar("source", row), False)
    for name in ("label", "start", "end"):
        if rows.has(name):
            # An answer's place is told in the batch's own columns, so left padding moves it.
            shift = layout.begins if name != "label" else np.zeros(len(numbers), np.int64)
            values = [rows.scalar(name, row) + int(s) for row, s in zip(numbers, shift, strict=True)]
            fields[name] = torch.tensor(values)
    for name in ("char_start", "char_end"):
        if rows.has(name):
            fields[name] = layout.filled(name, -1)
    if rows.has("labels"):
        fields["labels"] = torch.from_numpy(np.stack([rows.ragged("labels", row) for row in numbers]))
    if rows.has("number"):
        fields["number"] = torch.tensor([rows.number("number", row) for row in numbers], dtype=torch.float64)
    if rows.has("target"):
        fields["target_ids"], fields["target_real"] = targets(rows, "target", numbers, pad)
        fields["target_sizes"], _ = targets(rows, "target_sizes", numbers, 0)
    return Batch(rows=torch.from_numpy(numbers.copy()), **fields)


class Layout:
    """Where each encoded row stands in the batch."""

    def __init__(self, rows: Rows, places: Sequence[Index], side: Side):
        self.rows, self.places = rows, places
        used = [int(rows.lengths[entry].sum()) for entry in places]
        self.shape = (len(places), max(used, default=0))
        self.spans: list[tuple[int, int, int, int]] = []  # batch row, begin, length, encoded row
        for line, entry in enumerate(places):
            begin = self.shape[1] - used[line] if side == "left" else 0
            for row in entry:
                length = int(rows.lengths[row])
                self.spans.append((line, begin, length, int(row)))
                begin += length
        self.begins = np.array([begin for _, begin, _, _ in self.spans], np.int64)

    def each(self, values: Callable[[int, int], NDArray[np.generic]], empty: int | bool) -> Tensor:
        """A (B, T) tensor filled row by row with `values(row, length)`, with `empty` elsewhere."""
        out = np.full(self.shape, empty, bool if isinstance(empty, bool) else np.int64)
        for line, begin, length, row in self.spans:
            out[line, begin : begin + length] = values(row, length)
        return torch.from_numpy(out)

    def filled(self, column: str, empty: int) -> Tensor:
        return self.each(lambda row, n: self.rows.ragged(column, row), empty)

    def documents(self) -> Tensor:
        numbers = {int(row): n for entry in self.places for n, row in enumerate(entry, start=1)}
        return self.each(lambda row, n: np.full(n, numbers[row]), 0)


def targets(rows: Rows, column: str, numbers: Index, empty: int) -> tuple[Tensor, Tensor]:
    """A column of an encoder-decoder's targets, and where there are any (B, U): always padded on the right,
    since they are written left to right."""
    held = [rows.ragged(column, row) for row in numbers]
    shape = (len(held), max(map(len, held), default=0))
    found, real = np.full(shape, empty, np.int64), np.zeros(shape, bool)
    for line, values in enumerate(held):
        found[line, : len(values)] = values
        real[line, : len(values)] = True
    return torch.from_numpy(found), torch.from_numpy(real)
