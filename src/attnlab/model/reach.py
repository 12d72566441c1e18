"""Which inputs reach which outputs, by the masks and layouts that a stack of attention layers declares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from attnlab.model.attention.rule import Rule
from attnlab.model.masks import Mask
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens


def square(pairs: Pairs) -> Tensor:
    """The pairs (T,S) of one row that are allowed."""
    shape = pairs.queries.length, pairs.keys.length
    full = torch.ones(shape, dtype=torch.bool)
    return full if pairs.allowed is None else pairs.allowed[0, 0] & full


def declared(rules: Iterable[Rule], mask: Mask, tokens: Tokens) -> list[Tensor]:
    """The pairs (T,T) that each layer says it joins: mask, rule's layout, padding, documents."""
    return [square(Pairs(tokens, tokens, mask).within(rule.layout)) for rule in rules]


def combined_reach(layers: Sequence[Tensor]) -> Tensor:
    """What layers reach together: each passes on what the ones before it saw, and its own token."""
    reach = torch.eye(layers[0].shape[-1], dtype=torch.bool)
    for allowed in layers:
        reach = ((allowed | torch.eye(len(allowed), dtype=torch.bool)).float() @ reach.float()) > 0
    return reach
