"""What the layers of a stack declare to reach, one more at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.model.attention.argmax import Argmax
from attnlab.model.reach import combined_reach, declared
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import transformer_of
from attnlab.model.trunks.trunk import Trunk


@dataclass(frozen=True)
class DeclaredReach:
    """For each depth the pairs (T,T) that the layers up to it join, and what their rules are."""

    depths: Sequence[Tensor]
    heads: int
    all_argmax: bool


def declared_reach(trunk: Trunk, tokens: Tokens) -> DeclaredReach:
    """Of a transformer of one stack, by mask, layout, padding and documents."""
    transformer = transformer_of(trunk)
    if transformer.reads_source:
        raise ConfigError(
            "Reach by depth is that of one stack; an encoder-decoder has two with no common depth."
        )
    stack = transformer.main
    rules = stack.rules()
    layers = declared(rules, stack.mask, tokens)
    hard = [
        any(isinstance(part, Argmax) and not part.straight_through for part in rule.modules())
        for rule in rules
    ]
    heads = max(attention.projections.heads for attention in stack.attentions())
    return DeclaredReach(
        [combined_reach(layers[: depth + 1]) for depth in range(len(layers))], heads, all(hard)
    )
