"""A learned bias for each distance."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.model.draws import fill_normal
from attnlab.model.pairs import BiasOf
from attnlab.model.positions.position import Position, check_length
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens


class Relative(Position):
    """Relative: each layer and head learns one number for each distance.

    Formula: score(i, j) + π[j − i]; `clip=k` gives all distances beyond k the number of k.

    Cost: (2(N−1)+1)·H parameters a layer for length N; clipped (2k+1)·H.

    When it helps: where distance matters and place does not. Equal to concatenated positions when
    π_ij = q_i^pos·k_j^pos depends on i − j alone, as it does for sinusoids.

    Paper: Raffel et al. 2019, "Exploring the Limits of Transfer Learning" (a number a head, there in
    buckets); Shaw et al. 2018, "Self-Attention with Relative Position Representations" (vectors).
    """

    gives_bias = True
    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"clip": 2})

    def __init__(self, heads: int, layers: int, length: int, *, clip: Count | Literal["length"] = "length"):
        super().__init__()
        if clip != "length" and clip < 1:
            raise ValueError(f"clip is {clip}; it must be at least 1, or `length` for all distances.")
        self.heads, self.layers, self.length = heads, layers, length
        self.ends = clip == "length"
        self.far = length - 1 if clip == "length" else clip
        self.table = nn.Parameter(torch.empty(layers, heads, 2 * self.far + 1))
        self.initialise(None)

    def initialise(self, generator: torch.Generator | None) -> None:
        fill_normal(self.table, 0.02, generator)

    def bias(self, layer: int) -> BiasOf:
        return partial(self._bias, layer)

    def _bias(self, layer: int, queries: Tokens, keys: Tokens) -> Tensor:
        if self.ends:
            check_length(queries, self.length, "Relative")
        distance = keys.position[:, None, :] - queries.position[:, :, None]
        column = distance.clamp(-self.far, self.far) + self.far
        return self.table[layer][:, column].transpose(0, 1)

    def parameter_terms(self) -> list[Term]:
        count = self.layers * self.heads * (2 * self.far + 1)
        return [Term("distances", "L·H·(2(N−1)+1)" if self.ends else "L·H·(2k+1)", count)]
