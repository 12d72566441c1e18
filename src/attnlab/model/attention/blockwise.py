"""Attention inside blocks of tokens: an inner rule on rows that are the blocks, so that the cost falls."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.model.attention.rule import Rule
from attnlab.model.masks import Mask
from attnlab.model.pairs import Pairs
from attnlab.model.terms import Term


class Blockwise(Rule):
    """An inner rule on the pairs of a layout. It takes what its inner rule takes."""

    def __init__(self, inner: Rule, layout: Mask):
        super().__init__(inner.masking, inner.dropout)
        self.inner, self.layout = inner, layout
        self.takes_bias, self.takes_dropout = inner.takes_bias, inner.takes_dropout

    def takes(self, mask: Mask) -> bool:
        return self.inner.takes(mask)

    def weights(self, q: Tensor, k: Tensor, pairs: Pairs) -> Tensor:
        return self.inner.weights(q, k, pairs.within(self.layout))

    def dense(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        """The inner rule on all pairs at once, for a few queries at the end of many keys."""
        return self.inner(q, k, v, pairs.within(self.layout))

    def parameter_terms(self) -> list[Term]:
        return self.inner.parameter_terms()


def blocks_of(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens sorted into one block for each id: their places (B, G, M), -1 where a block is shorter,
    and for each token its place among the flattened blocks (B, T). Order inside a block is kept."""
    B, T = ids.shape
    order = ids.argsort(dim=1, stable=True)
    ordered = ids.gather(1, order)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    block = new.long().cumsum(1) - 1
    step = torch.arange(T, device=ids.device).expand(B, T)
    offset = step - torch.where(new, step, 0).cummax(1).values
    G, M = int(block.max()) + 1, int(offset.max()) + 1
    place = block * M + offset
    places = order.new_full((B, G * M), -1).scatter(1, place, order).view(B, G, M)
    return places, torch.empty_like(place).scatter(1, order, place)


def split(x: Tensor, places: Tensor) -> Tensor:
    """x (B,H,T,K) at places (B,G,M) -> (B·G, H, M, K); what stands at -1 is masked by its coordinates."""
    B, G, M = places.shape
    index = places.clamp(min=0).view(B, 1, G * M, 1).expand(-1, x.shape[1], -1, x.shape[3])
    return x.gather(2, index).unflatten(2, (G, M)).transpose(1, 2).flatten(0, 1)


def unsplit(y: Tensor, back: Tensor) -> Tensor:
    """The reverse for outputs: y (B·G, H, M, K) and each token's place (B, T) -> (B,H,T,K)."""
    rows = y.unflatten(0, (len(back), -1)).transpose(1, 2).flatten(2, 3)  # (B, H, G·M, K)
    return rows.gather(2, back[:, None, :, None].expand(-1, rows.shape[1], -1, rows.shape[3]))


def even_blocks(x: Tensor, size: int) -> Tensor:
    """x (B,H,n·size,K) -> (B·n, H, size, K)."""
    rows = x.transpose(1, 2)
    return rows.reshape(-1, size, *rows.shape[2:]).transpose(1, 2)
