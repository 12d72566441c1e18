"""Prefix tuning."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.model.adapters.adapter import Adapter, check_sizes, generator_for
from attnlab.model.draws import fill_normal
from attnlab.model.model import Model
from attnlab.model.stack import Stack
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import transformer_of
from attnlab.model.virtual import Virtual


class Prefix(Adapter):
    """Prefix: trained keys and values stand before those of the text, in every layer.

    Formula: attention over [K_p ; K] and [V_p ; V], with n of each a layer, at positions 0 … n − 1; the
    text moves on by n. Rotary does not turn them: they are trained as they are.

    Cost: 2·L·n·H'·K parameters for H' heads of keys; n keys more in every layer, and no queries. A window
    or a group hides them from texts further on, as it would words. In an encoder-decoder they stand
    in the decoder's self-attention.

    When it helps: as prompt does, with more to say in each layer; writing text.

    Paper: Li and Liang 2021, "Prefix-Tuning: Optimizing Continuous Prompts for Generation".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({"tokens": 3},)
    stands_before = True

    def __init__(self, *, tokens: Count = 20):
        super().__init__()
        self.before = PrefixTokens(tokens)

    def insert(self, model: Model, seed: int) -> None:
        stack = transformer_of(model.trunk).main
        self.before.begin(stack, seed)
        stack.accept(self.before.to(stack.embedding.tokens.weight))

    def remove(self, model: Model) -> None:
        transformer_of(model.trunk).main.virtual = None

    def own(self) -> list[nn.Parameter]:
        return list(self.before.parameters())

    def terms(self) -> list[Term]:
        return [
            Term("prefix keys", "L·n·H'K", self.before.keys.numel()),
            Term("prefix values", "L·n·H'K", self.before.values.numel()),
        ]


class PrefixTokens(Virtual):
    """Virtual tokens that are looked at and do not look: keys and values (L, H', n, K)."""

    def __init__(self, count: int):
        super().__init__(count)
        self.keys, self.values = nn.Parameter(torch.empty(0)), nn.Parameter(torch.empty(0))

    def begin(self, stack: Stack, seed: int) -> None:
        """As large as the stack's own keys and values; drawn small unless they are there already."""
        attention = stack.attentions()[0]
        projections, like = attention.projections, attention.output.weight
        shape = (len(stack.blocks), projections.key_heads, self.count, projections.head_width)
        self.refuse_many(2 * len(stack.blocks) * projections.key_heads * projections.head_width)
        for name in ("keys", "values"):
            own = getattr(self, name)
            if own.numel():
                check_sizes("prefix", own, shape)
                continue
            parameter = nn.Parameter(like.new_empty(shape))
            fill_normal(parameter, 0.02, generator_for(seed, f"adapter.prefix.{name}"))
            setattr(self, name, parameter)

    def placed(self, text: Tokens) -> tuple[Tokens, Tokens]:
        return text, self._row(text)

    def sources(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = (own[layer].expand(len(k), -1, -1, -1).to(k.dtype) for own in (self.keys, self.values))
        return torch.cat([keys, k], 2), torch.cat([values, v], 2)
