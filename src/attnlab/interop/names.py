"""Whose tensor is which: one table a family, read in both directions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

LEAVES = ("", ".weight", ".bias")
"""A line of a table names a parameter, or a module with some of these."""


@dataclass(frozen=True)
class TensorForm:
    """How a tensor of theirs becomes one of ours, and back; and its shape by that of ours."""

    inward: Callable[[Tensor], Tensor]
    outward: Callable[[Tensor], Tensor]
    shape: Callable[[tuple[int, ...]], tuple[int, ...]]


def _side(shape: Sequence[int]) -> int:
    """Pixels of a side of a patch, of a map (D, 3·side²)."""
    return round((shape[1] / 3) ** 0.5)


PATCHES = TensorForm(
    inward=lambda tensor: tensor.permute(0, 2, 3, 1).flatten(1),
    outward=lambda own: own.unflatten(1, (_side(own.shape), -1, 3)).permute(0, 3, 1, 2),
    shape=lambda own: (own[0], 3, _side(own), _side(own)),
)
"""A convolution (D, 3, P, P) over a picture: our map of a patch's pixels, colour by colour, (D, P·P·3)."""
ONE_MORE = TensorForm(lambda tensor: tensor[0], lambda own: own[None], lambda own: (1, *own))
"""A dimension of one before all others."""
CLASS_TOKEN = TensorForm(
    inward=lambda tensor: torch.cat([tensor[0], torch.zeros_like(tensor[0])]),
    outward=lambda own: own[None, :1],
    shape=lambda own: (1, 1, *own[1:]),
)
"""The vector (1, 1, D) before a picture's patches: the first of the two rows of our table, of which the
second, that of patches, is zero."""
CLASS_VECTOR = TensorForm(
    inward=lambda tensor: torch.stack([tensor, torch.zeros_like(tensor)]),
    outward=lambda own: own[0],
    shape=lambda own: tuple(own[1:]),
)
"""The same as (D)."""


@dataclass(frozen=True)
class Held:
    """The modules of ours whose tensors one of theirs holds, one after another.

    `transposed`: matrices are (in, out) there, as in GPT-2's files; ours are (out, in). A single one may have
    another `form`. The line holds for models that have the module `needs`, or for those without the module
    `lacks`.
    """

    ours: tuple[str, ...]
    transposed: bool = False
    needs: str = ""
    lacks: str = ""
    form: TensorForm | None = None

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
    form: TensorForm | None = None

    def inward(self, tensor: Tensor, rows: Sequence[int]) -> Sequence[Tensor]:
        """Our parameters, of these many rows each, from their tensor."""
        if self.form is not None:
            return [self.form.inward(tensor)]
        turned = tensor.T if self.transposed and tensor.ndim == 2 else tensor
        return turned.split(list(rows)) if len(rows) > 1 else [turned]

    def outward(self, parts: Sequence[Tensor]) -> Tensor:
        """Their tensor from our parameters."""
        if self.form is not None:
            return self.form.outward(parts[0])
        joined = torch.cat(list(parts)) if len(parts) > 1 else parts[0]
        return joined.T if self.transposed and joined.ndim == 2 else joined

    def shape(self, ours: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The shape that theirs must have; joining tensors on "meta" would load torch's compiler."""
        if self.form is not None:
            return self.form.shape(tuple(ours[0]))
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
                    name = prefix + theirs.format(layer=layer) + leaf
                    yield Link(name, ours, parts.transposed, parts.form)
