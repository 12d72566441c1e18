"""What a head looks at, by measurement: the share of its weight on keys of a kind, against chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NAMED_AT, TIMES = 0.4, 2.0
"""A head is of a kind when this share of its weight is on such keys, and so many times what chance gives."""
MIXED = "mixed"
KINDS = {
    "previous token": "the token before",
    "first token": "the first token of the row",
    "delimiter": "special tokens and punctuation, the token itself aside",
    "same word": "other places of the same token, on random words that come twice",
    "induction": "the token after an earlier place of the same token, on random words that come twice",
}
"""Each kind of head, and the keys whose share of the weight decides it."""
REPEATED = ("same word", "induction")
"""Kinds that need tokens which come twice: measured on random words."""


@dataclass(frozen=True)
class Share:
    """The mean weight on keys of a kind (H), and what equal weights on all allowed keys would give."""

    of_heads: Tensor
    chance: float


def shares(
    weights: Tensor, allowed: Tensor, ids: Sequence[int], delimiters: Sequence[bool], kinds: Sequence[str]
) -> dict[str, Share]:
    """For each kind its share in weights (H,T,T), over the queries that have such a key; none without any."""
    by_kind = {}
    for kind in kinds:
        keys = _keys(kind, ids, delimiters) & allowed
        asking = keys.any(-1)
        if bool(asking.any()):
            even = keys.sum(-1)[asking] / allowed.sum(-1)[asking]
            on_keys = (weights * keys).sum(-1)[:, asking].mean(-1)
            by_kind[kind] = Share(on_keys, float(even.double().mean()))
    return by_kind


def _keys(kind: str, ids: Sequence[int], delimiters: Sequence[bool]) -> Tensor:
    """(T,T): the keys of this kind for each query."""
    T = len(ids)
    row, token = torch.arange(T), torch.tensor(list(ids))
    query, key = row[:, None], row[None, :]
    if kind == "previous token":
        return key == query - 1
    if kind == "first token":
        return (key == 0) & (query > 0)
    if kind == "delimiter":
        return torch.tensor(list(delimiters))[None, :] & (key != query)
    same = (token[:, None] == token[None, :]) & (key != query)
    if kind == "same word":
        return same
    earlier = same & (key < query)  # the token after each of these
    return torch.nn.functional.pad(earlier[:, :-1], (1, 0)) & (key != query)


def kind_of(by_kind: Mapping[str, Share], head: int) -> str:
    """The kind with the largest share, where it is large enough; else mixed."""
    fitting = {
        kind: float(share.of_heads[head])
        for kind, share in by_kind.items()
        if float(share.of_heads[head]) >= max(NAMED_AT, TIMES * share.chance)
    }
    return max(fitting, key=lambda kind: fitting[kind]) if fitting else MIXED


def entropy(weights: Tensor) -> Tensor:
    """(H): nats, mean over queries of weights (H,T,S); a query that sees nothing is left out."""
    total = weights.sum(-1, keepdim=True)
    p = weights / total.clamp(min=1e-30)
    each = -torch.xlogy(p, p).sum(-1)
    seen = (total[..., 0] > 0).to(each.dtype)
    return (each * seen).sum(-1) / seen.sum(-1).clamp(min=1)


def distance(weights: Tensor) -> Tensor:
    """(H): tokens from the query to where it looks, mean over weights and queries (H,T,T)."""
    T, S = weights.shape[-2:]
    apart = (torch.arange(T)[:, None] - torch.arange(S)[None, :]).abs()
    total = weights.sum(-1).clamp(min=1e-30)
    return ((weights * apart).sum(-1) / total).mean(-1)
