"""Whose tensor is which: one table a family, read in both directions."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

LEAVES = ("", ".weight", ".bias")
"""A line of a table names a parameter, or a module with some of these."""


@dataclass(frozen=True)
class Held:
    """The modules of ours whose tensors one of theirs holds, one after another.

    `transposed`: matrices are (in, out) there, as in GPT-2's files; ours are (out, in). The line holds
    for models that have the module `needs`, or for those without the module `lacks`.
    """

    ours: tuple[str, ...]
    transposed: bool = False
    needs: str = ""
    lacks: str = ""

    def holds(self, layer: int, known: Container[str]) -> bool:
        def has(module: str) -> bool:
            return any(module.format(layer=layer) + leaf in known for leaf in LEAVES)

        return (not self.needs or has(self.needs)) and not (self.lacks and has(self.lacks))


Table = dict[str, str | Held]
"""Their name -> ours; `{layer}` stands for every layer's number."""


@dataclass(frozen=True)
class Link:
    """One tensor of theirs and the parameters of ours that are in it."""

    theirs: str
    ours: tuple[str, ...]
    transposed: bool = False

    def inward(self, tensor: Tensor, rows: Sequence[int]) -> Sequence[Tensor]:
        """Our parameters, of these many rows each, from their tensor."""
        turned = tensor.T if self.transposed and tensor.ndim == 2 else tensor
        return turned.split(list(rows)) if len(rows) > 1 else [turned]

    def outward(self, parts: Sequence[Tensor]) -> Tensor:
        """Their tensor from our parameters."""
        joined = torch.cat(list(parts)) if len(parts) > 1 else parts[0]
        return joined.T if self.transposed and joined.ndim == 2 else joined

    def shape(self, ours: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The shape that theirs must have; joining tensors on "meta" would load torch's compiler."""
        joined = (sum(shape[0] for shape in ours), *ours[0][1:]) if len(ours) > 1 else tuple(ours[0])
        return joined[::-1] if self.transposed and len(joined) == 2 else joined


def links(table: Table, layers: int, known: Container[str], *, prefix: str = "") -> Iterator[Link]:
    """The lines of a table whose parameters a model has; `known` are the names of those."""
    for theirs, value in table.items():
        parts = Held((value,)) if isinstance(value, str) else value
        for layer in range(layers) if "{layer}" in theirs else (0,):
            for leaf in LEAVES if parts.holds(layer, known) else ():
                ours = tuple(name.format(layer=layer) + leaf for name in parts.ours)
                if all(name in known for name in ours):
                    yield Link(prefix + theirs.format(layer=layer) + leaf, ours, parts.transposed)
