"""Positions as a bias on the scores by distance: learned, learned by bucket, or fixed."""

from __future__ import annotations

import math
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


class Bucketed(Position):
    """Bucketed: one number a head for each bucket of distances, near ones fine, far ones coarse.

    Formula: score(i, j) + π[bucket(j − i)]; half of the buckets hold one distance each, the rest
    grow with its logarithm up to `distance`. Two-sided unless the mask only looks back.

    Cost: buckets·H parameters, shared by all layers; any length.

    When it helps: long texts with few parameters for positions; T5's scheme.

    Paper: Raffel et al. 2019, "Exploring the Limits of Transfer Learning" (T5).
    """

    gives_bias = True

    def __init__(self, heads: int, looks_back: bool = False, *, buckets: Count = 32, distance: Count = 128):
        super().__init__()
        if buckets < 4 or buckets % 2:
            raise ValueError(f"buckets is {buckets}; it must be even and at least 4.")
        if distance <= buckets:
            raise ValueError(f"distance {distance} must be above buckets {buckets}: far ones share a bucket.")
        self.heads, self.looks_back, self.buckets, self.distance = heads, looks_back, buckets, distance
        self.table = nn.Embedding(buckets, heads)

    def bias(self, layer: int) -> BiasOf:
        return self._bias

    def _bias(self, queries: Tokens, keys: Tokens) -> Tensor:
        distance = keys.position[:, None, :] - queries.position[:, :, None]
        bias: Tensor = self.table(self.bucket(distance))
        return bias.permute(0, 3, 1, 2)

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of key position − query position."""
        if self.looks_back:
            count, side, away = self.buckets, torch.zeros_like(distance), (-distance).clamp(min=0)
        else:
            count = self.buckets // 2
            side, away = (distance > 0).long() * count, distance.abs()
        exact = count // 2
        share = (away.clamp(min=1).float() / exact).log() / math.log(self.distance / exact)
        coarse = exact + (share * (count - exact)).long()
        return side + torch.where(away < exact, away, coarse.clamp(max=count - 1))

    def parameter_terms(self) -> list[Term]:
        return [Term("buckets", "buckets·H", self.buckets * self.heads)]


class Alibi(Position):
    """ALiBi: far tokens are penalised in proportion to their distance, each head at its own rate.

    Formula: score(i, j) − m_h·|i − j|, with m_h = 2^(−8h/H) for h = 1 … H.

    Cost: no parameters; any length.

    When it helps: text longer than what the model was trained on.

    Paper: Press et al. 2021, "Train Short, Test Long".
    """

    gives_bias = True

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def bias(self, layer: int) -> BiasOf:
        return self._bias

    def _bias(self, queries: Tokens, keys: Tokens) -> Tensor:
        head = torch.arange(1, self.heads + 1, device=queries.position.device)
        rate = torch.exp2(-8.0 * head / self.heads).to(torch.get_default_dtype())
        distance = (keys.position[:, None, None, :] - queries.position[:, None, :, None]).abs()
        return -rate[:, None, None] * distance
