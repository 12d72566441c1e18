"""What masks and positions know of a row of tokens.

Letters, the same in every file: B batch, T queries, S keys, H heads, D model width, K head width,
V vocabulary, L layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Tokens:
    """The coordinates of a row of tokens, each (B|1, T).

    `index` is the order in the row, for causal and window masks; `position` is what position
    schemes and groups see: it restarts in each packed document and skips left padding. With only
    one of the two, causal-by-position would let packed documents see the future.
    """

    index: Tensor
    position: Tensor
    real: Tensor | None = None  # False: padding
    document: Tensor | None = None  # packed documents, numbered in order
    source: Tensor | None = None  # True: in the source of a prefix (sequence-to-sequence) mask
    group: Tensor | None = None  # given group ids (modality)
    span: range = range(0)  # what `index` is, in every row; empty when rows differ
    bound: int = 0  # every position is below it; known without looking at the tensors
    patch: Tensor | None = None  # patches of a picture numbered from 1, row by row; 0: no patch

    @staticmethod
    def of(
        length: int,
        *,
        real: Tensor | None = None,
        document: Tensor | None = None,
        source: Tensor | None = None,
        group: Tensor | None = None,
        position: Tensor | None = None,
        patch: Tensor | None = None,
        device: torch.device | str | None = None,
    ) -> Tokens:
        """The coordinates of `length` tokens; positions follow from padding and documents unless given, and
        groups from patches: text is 0, an image 1."""
        if length < 1:
            raise ValueError("There are no tokens: a row needs at least one.")
        given = {"real": real, "document": document, "source": source, "group": group, "position": position}
        given["patch"] = patch
        for name, value in given.items():
            if value is not None and (value.ndim != 2 or value.shape[1] != length):
                raise ValueError(f"{name} has shape {tuple(value.shape)}; it must be (batch, {length}).")
        marks = [mark for mark in given.values() if mark is not None]
        index = torch.arange(length, device=marks[0].device if marks else device)[None]
        if document is not None:
            document = _numbered(document)
        bound = length if position is None else int(position.max()) + 1
        if position is None:
            position = _positions(index, real, document)
        if patch is not None and group is None:
            group = (patch > 0).long()
        return Tokens(index, position, real, document, source, group, range(length), bound, patch)

    @property
    def length(self) -> int:
        return self.index.shape[1]

    @property
    def rows(self) -> int:
        return max(field.shape[0] for field in self._fields().values())

    @property
    def aligned(self) -> bool:
        """True when position is index in every row and nothing but order is known (decided statically)."""
        return self.position is self.index and self.real is None and self.document is None

    def _fields(self) -> dict[str, Tensor]:
        named = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in named.items() if value is not None}

    def map(self, change: Callable[[Tensor], Tensor], span: range = range(0)) -> Tokens:
        """Every field changed in the same way."""
        changed: dict[str, Any] = {name: change(value) for name, value in self._fields().items()}
        if self.position is self.index:
            changed["position"] = changed["index"]
        return replace(self, span=span, **changed)

    def part(self, start: int, stop: int) -> Tokens:
        """The tokens from `start` to `stop` of each row."""
        return self.map(lambda field: field[:, start:stop], self.span[start:stop])

    def last(self, count: int) -> Tokens:
        return self.part(max(self.length - count, 0), self.length)

    def select(self, rows: Tensor) -> Tokens:
        """The given rows, for beams; what is equal in all rows stays as it is."""
        return self.map(lambda field: field if field.shape[0] == 1 else field[rows], self.span)

    def as_one_row(self, count: int) -> Tokens:
        """Every `count` rows as one, token after token, for queries that share their keys."""
        if count == 1:
            return self
        return self.map(
            lambda field: (
                field.repeat(1, count) if field.shape[0] == 1 else field.unflatten(0, (-1, count)).flatten(1)
            )
        )

    def following(self, count: int) -> Tokens:
        """The coordinates of the next `count` tokens: real, in no source, in the last token's group."""
        if self.document is not None:
            raise ValueError("Packed documents cannot be continued: which one would the next token be in?")
        step = torch.arange(1, count + 1, device=self.index.device)
        index = self.index[:, -1:] + step
        position = index if self.position is self.index else self.position[:, -1:] + step
        group = None if self.group is None else self.group[:, -1:].expand(-1, count)
        span = range(self.span.stop, self.span.stop + count) if self.span else range(0)
        return Tokens(index, position, group=group, span=span, bound=self.bound + count)

    def shifted(self, by: int) -> Tokens:
        """The same tokens, `by` places further on in their row."""
        if by == 0:
            return self
        index = self.index + by
        position = index if self.position is self.index else self.position + by
        span = range(self.span.start + by, self.span.stop + by) if self.span else range(0)
        return replace(self, index=index, position=position, span=span, bound=self.bound + by)

    def join(self, after: Tokens) -> Tokens:
        """These tokens and then those."""
        rows = max(self.rows, after.rows)
        is_plain = self.position is self.index and after.position is after.index
        joined = {}
        for name in FIELDS:
            if (getattr(self, name) is None and getattr(after, name) is None) or (
                is_plain and name == "position"
            ):
                continue
            first, second = self._known(name), after._known(name)
            if first is None or second is None:
                raise ValueError(f"{name} is known for only one part of the sequence; give it for both.")
            rows_of = max(first.shape[0], second.shape[0]) if name == "index" else rows
            joined[name] = torch.cat([first.expand(rows_of, -1), second.expand(rows_of, -1)], 1)
        if is_plain:
            joined["position"] = joined["index"]
        adjoin = bool(self.span) and bool(after.span) and self.span.stop == after.span.start
        span = range(self.span.start, after.span.stop) if adjoin else range(0)
        return Tokens(**joined, span=span, bound=max(self.bound, after.bound))

    def _known(self, name: str) -> Tensor | None:
        """A field, where silence has a meaning: tokens are real, not in the source, and no patches."""
        value: Tensor | None = getattr(self, name)
        if value is None and name in ("real", "source"):
            return torch.full_like(self.index, name == "real", dtype=torch.bool)
        return torch.zeros_like(self.index) if value is None and name == "patch" else value

    def take(self, order: Tensor) -> Tokens:
        """The tokens at `order` (B, G, M), -1 where there is none, as rows of their own: (B·G, M)."""
        B, G, M = order.shape
        place = order.clamp(min=0).view(B, G * M)
        taken = self.map(lambda field: field.expand(B, -1).gather(1, place).view(B * G, M))
        there = (order >= 0).view(B * G, M)
        return replace(taken, real=there if taken.real is None else taken.real & there)


FIELDS = ("index", "position", "real", "document", "source", "group", "patch")
TEXT, IMAGE, BOTTLENECK = 0, 1, 2
"""The groups of tokens by what they are of; those of a bottleneck are of both."""


def _borders(document: Tensor) -> Tensor:
    new = torch.ones_like(document, dtype=torch.bool)
    new[:, 1:] = document[:, 1:] != document[:, :-1]
    return new


def _numbered(document: Tensor) -> Tensor:
    """Documents numbered in their order, so that each is one contiguous stretch, whatever the ids were."""
    return _borders(document).long().cumsum(1)


def _positions(index: Tensor, real: Tensor | None, document: Tensor | None) -> Tensor:
    if real is None and document is None:
        return index
    steps = torch.ones_like(index) if real is None else real.long()
    count = steps.cumsum(1)
    if document is not None:
        before = (count - steps).expand(document.shape[0], -1)
        count = count - torch.where(_borders(document), before, 0).cummax(1).values
    return (count - 1).clamp(min=0)
