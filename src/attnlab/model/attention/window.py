"""Window attention: an inner rule over near tokens only."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.config.ranges import Count
from attnlab.model import masks
from attnlab.model.attention.blockwise import Blockwise, split
from attnlab.model.attention.rule import Rule
from attnlab.model.masks import Causal, Mask
from attnlab.model.pairs import Pairs


class Window(Blockwise):
    """Window: tokens attend only to their neighbours, less than `size` away.

    Formula: the inner rule over {j : |i − j| < size}.

    Cost: O(n·size): blocks of `size` queries, each with the two or three blocks of keys in reach.
    A cache holds `size` keys, whatever the length.

    When it helps: long text whose near words matter most; L stacked layers see L·(size − 1) far.

    Paper: Beltagy et al. 2020, "Longformer".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({"size": 3}, {"size": 3, "inner": "additive"})

    def __init__(self, inner: Rule, *, size: Count = 64):
        super().__init__(inner, masks.Window(size=size))
        self.size = size

    def takes(self, mask: Mask) -> bool:
        return self.inner.takes(mask & self.layout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        T = pairs.queries.length
        if pairs.keys.length != T or 2 * self.size >= T:
            return self.dense(q, k, v, pairs)
        near = pairs.within(self.layout)
        query_places, key_places = self._places(T, q.shape[0], near)
        blocks = (split(q, query_places), split(k, key_places), split(v, key_places))
        y: Tensor = self.inner(*blocks, near.take(query_places, key_places))
        return y.unflatten(0, (q.shape[0], -1)).transpose(1, 2).flatten(2, 3)[:, :, :T]

    def _places(self, T: int, rows: int, near: Pairs) -> tuple[Tensor, Tensor]:
        """Where each block's queries and keys stand in the row, -1 beyond its ends."""
        backward = Causal() in near.pattern.terms and self.masking == "-inf"
        start = torch.arange(0, T, self.size, device=near.queries.index.device)[:, None]
        reach = self.size if backward else 2 * self.size - 1
        queries = start + torch.arange(self.size, device=start.device)
        keys = start + torch.arange(1 - self.size, reach, device=start.device)
        inside = (torch.where((x >= 0) & (x < T), x, -1).expand(rows, -1, -1) for x in (queries, keys))
        return tuple(inside)  # type: ignore[return-value]  # two of them

    def growth(self, pairs: str, tokens: str) -> str:
        return self.inner.growth(f"{tokens}·size", tokens)

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        reach = min(3 * self.size, keys)
        return math.ceil(queries / self.size) * self.inner.flops(
            min(self.size, queries), reach, heads, head_width
        )

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        reach = min(3 * self.size, keys)
        return math.ceil(queries / self.size) * self.inner.saved_elements(
            min(self.size, queries), reach, heads, head_width
        )
