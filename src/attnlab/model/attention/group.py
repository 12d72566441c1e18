"""Group attention: an inner rule inside each group of tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from attnlab.config.ranges import Count
from attnlab.model.attention.blockwise import Blockwise, blocks_of, even_blocks, split, unsplit
from attnlab.model.attention.modalities import attend_parts, modality_parts
from attnlab.model.attention.rule import Rule
from attnlab.model.masks import Bidirectional, Causal, Mask
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens


@dataclass(frozen=True)
class SameStretch(Mask):
    """Tokens of one stretch of `size` positions."""

    size: int

    @property
    def horizon(self) -> float:
        return self.size

    def ids(self, tokens: Tokens) -> Tensor:
        return tokens.position // self.size

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        return self.ids(queries)[:, :, None] == self.ids(keys)[:, None, :]


@dataclass(frozen=True)
class SameGroup(Mask):
    """Tokens with the same given group id."""

    def ids(self, tokens: Tokens) -> Tensor:
        if tokens.group is None:
            raise ValueError("group(by=ids) needs group ids in the batch; give `group`, or use by=position.")
        return tokens.group

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        return self.ids(queries)[:, :, None] == self.ids(keys)[:, None, :]


@dataclass(frozen=True)
class SameModality(Mask):
    """Tokens of one modality; tokens of which none is known are text."""

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        if queries.group is None or keys.group is None:
            return Bidirectional()(queries, keys)
        return queries.group[:, :, None] == keys.group[:, None, :]


class Group(Blockwise):
    """Group: tokens attend only inside their own group.

    Formula: the inner rule over {j : group(j) = group(i)}, where group = position // ⌈length/G⌉,
    or an id given with the batch (`by=ids`), or what a token is of, image or text (`by=modality`).

    Cost: O(n²/G), with blocks computed apart, so that the time really falls.

    When it helps: inputs of several kinds (image and text tokens), each attended apart and then
    fused by other layers; long inputs with local structure. Borders go by absolute position, so
    that neither padding, nor batch, nor cache moves them.

    Paper: Qiu et al. 2019, "Blockwise Self-Attention for Long Document Understanding".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"inner": "linear"})

    def __init__(
        self,
        inner: Rule,
        length: int,
        patches: int = 0,
        *,
        groups: Count = 4,
        by: Literal["position", "ids", "modality"] = "position",
    ):
        if groups < 1:
            raise ValueError(f"groups is {groups}; there must be at least 1.")
        self.size = math.ceil(length / groups)
        self.patches = patches
        layouts = {"position": SameStretch(self.size), "ids": SameGroup(), "modality": SameModality()}
        super().__init__(inner, layouts[by])

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        if isinstance(self.layout, SameModality):
            return self._modalities(q, k, v, pairs)
        if pairs.queries.length != pairs.keys.length:
            return self.dense(q, k, v, pairs)
        if isinstance(self.layout, SameStretch) and self._regular(pairs):
            return self._stretches(q, k, v, pairs)
        return self._sorted(q, k, v, pairs)

    def _modalities(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        parts = modality_parts(pairs)
        return self.dense(q, k, v, pairs) if parts is None else attend_parts(self.inner, q, k, v, parts)

    @staticmethod
    def _regular(pairs: Pairs) -> bool:
        """Whether every group looks the same: nothing but order is known, and only it matters."""
        ordered = pairs.queries.aligned and pairs.queries.span == pairs.keys.span == range(
            pairs.queries.length
        )
        return ordered and pairs.bias_of is None and pairs.mask.terms in ((), (Causal(),))

    def _stretches(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        T = q.shape[2]
        whole = T // self.size * self.size
        outputs = []
        if whole:
            blocks = (even_blocks(x[:, :, :whole], self.size) for x in (q, k, v))
            y = self.inner(*blocks, self._one_group(pairs, self.size))
            y = y.transpose(1, 2).reshape(q.shape[0], whole, q.shape[1], -1).transpose(1, 2)
            outputs.append(y)
        if whole < T:
            rest = (x[:, :, whole:] for x in (q, k, v))
            outputs.append(self.inner(*rest, self._one_group(pairs, T - whole)))
        return torch.cat(outputs, 2) if len(outputs) > 1 else outputs[0]

    @staticmethod
    def _one_group(pairs: Pairs, length: int) -> Pairs:
        tokens = Tokens.of(length, device=pairs.queries.index.device)
        return pairs.between(tokens, tokens)

    def _sorted(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        layout = self.layout
        assert isinstance(layout, (SameStretch, SameGroup))
        ids = self._block_ids(layout.ids(pairs.queries), pairs.queries)
        places, back = blocks_of(ids.expand(q.shape[0], -1))
        blocks = (split(x, places) for x in (q, k, v))
        return unsplit(self.inner(*blocks, pairs.take(places, places)), back)

    def _block_ids(self, ids: Tensor, tokens: Tokens) -> Tensor:
        """Group ids, apart for each document; padding in blocks of its own, so that it fattens no other."""
        if tokens.document is not None:
            ids = ids + tokens.document * (int(ids.max()) + 1)
        if tokens.real is not None:
            ids = torch.where(tokens.real, ids, -1 - tokens.index // self.size)
        return ids

    def growth(self, pairs: str, tokens: str) -> str:
        by_modality = isinstance(self.layout, SameModality)
        return self.inner.growth("(n² + m²)" if by_modality else f"{pairs}/groups", tokens)

    def _modality_sizes(self, queries: int) -> list[int]:
        """Patches, and the tokens of text beside them; text alone where a row has no room for a picture."""
        return [self.patches, queries - self.patches] if 0 < self.patches < queries else [queries]

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        if isinstance(self.layout, SameModality):
            sizes = self._modality_sizes(queries)
            return sum(self.inner.flops(size, size, heads, head_width) for size in sizes)
        size = min(self.size, keys)
        return math.ceil(queries / size) * self.inner.flops(min(size, queries), size, heads, head_width)

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        if isinstance(self.layout, SameModality):
            sizes = self._modality_sizes(queries)
            return sum(self.inner.saved_elements(size, size, heads, head_width) for size in sizes)
        size = min(self.size, keys)
        return math.ceil(queries / size) * self.inner.saved_elements(
            min(size, queries), size, heads, head_width
        )
