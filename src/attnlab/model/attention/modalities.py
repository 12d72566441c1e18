"""Rows of tokens divided by modality, each part attended apart, so that the cost falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.model.attention.rule import Rule
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import BOTTLENECK, Tokens


@dataclass(frozen=True)
class ModalityPart:
    """Some queries of a row and the keys that they attend to, by their places (n) and (m)."""

    queries: Tensor
    keys: Tensor
    pairs: Pairs


def modality_parts(pairs: Pairs, *, bridged: bool = False) -> list[ModalityPart] | None:
    """The parts of rows that are all divided alike: each modality with itself; `bridged` also with the tokens
    of a bottleneck, which attend to all. None where rows differ, or queries and keys do.
    """
    group = pairs.queries.group
    if group is None or group.shape[0] > 1 or pairs.queries is not pairs.keys:
        return None
    if bridged not in pairs.parts:
        pairs.parts[bridged] = list(_parts(pairs, group[0], bridged))
    parts: list[ModalityPart] = pairs.parts[bridged]
    return parts


def _parts(pairs: Pairs, group: Tensor, bridged: bool) -> list[ModalityPart]:
    parts = []
    for kind in group.unique().tolist():
        mine = group == kind
        seen = mine
        if bridged:
            seen = torch.ones_like(mine) if kind == BOTTLENECK else mine | (group == BOTTLENECK)
        queries, keys = mine.nonzero()[:, 0], seen.nonzero()[:, 0]
        own = tokens_at(pairs.queries, queries)
        others = own if seen is mine else tokens_at(pairs.keys, keys)
        parts.append(ModalityPart(queries, keys, pairs.between(own, others)))
    return parts


def tokens_at(tokens: Tokens, places: Tensor) -> Tokens:
    """The tokens at some places (n) of every row, without a mark of padding where none is."""
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == len(places):
        chosen = tokens.part(first, last + 1)
    else:
        chosen = tokens.map(lambda field: field[:, places])
    padded = chosen.real is not None and not bool(chosen.real.all())
    return chosen if padded else replace(chosen, real=None)


def attend_parts(inner: Rule, q: Tensor, k: Tensor, v: Tensor, parts: Sequence[ModalityPart]) -> Tensor:
    """The inner rule on each part, (B,H,T,K)."""
    if len(parts) == 1 and len(parts[0].keys) == k.shape[2]:
        return inner(q, k, v, parts[0].pairs)
    out = q.new_empty(q.shape[:3] + v.shape[3:])
    for part in parts:
        one, own, values = q[:, :, part.queries], k[:, :, part.keys], v[:, :, part.keys]
        out = out.index_copy(2, part.queries, inner(one, own, values, part.pairs).to(out.dtype))
    return out
