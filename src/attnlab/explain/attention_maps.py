"""Attention maps: which tokens each token looks at, layer by layer, head by head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.model.blocks import Scope, SelfAttention
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens


@torch.no_grad()
def attention_weights(model: Model, ids: Tensor, tokens: Tokens | None = None) -> list[Tensor]:
    """The self-attention weights of each layer (B,H,T,S) over ids (B,T), by each rule's plain reference."""
    found: list[Tensor] = []

    def look(layer: Any, given: tuple[Tensor, Scope]) -> None:
        x, scope = given
        q, k, _ = layer.projections(x)
        if scope.rotation is not None:
            q, k = scope.rotation(q), scope.rotation(k)
        found.append(layer.rule.weights(q, k, scope.pairs))

    layers = [part for part in model.trunk.attentions().values() if isinstance(part, SelfAttention)]
    handles = [layer.register_forward_pre_hook(look) for layer in layers]
    training = model.training
    try:
        model.eval()
        model.trunk(ids, tokens)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    return found
