"""A learned bias for each bucket of distances, shared by all layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.model.pairs import BiasOf
from attnlab.model.positions.position import Position
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens


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
