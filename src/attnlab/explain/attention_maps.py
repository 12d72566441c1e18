"""Attention maps: which tokens each token looks at, layer by layer, head by head."""

from __future__ import annotations

from torch import Tensor

from attnlab.model.apart import undisturbed
from attnlab.model.capture import capture
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens


def attention_weights(model: Model, ids: Tensor, tokens: Tokens | None = None) -> list[Tensor]:
    """The self-attention weights of each layer (B,H,T,S) over ids (B,T), by each rule's plain reference."""
    with undisturbed(model), capture(model, "layers.*.attention.weights") as seen:
        model.trunk(ids, tokens)
    return list(seen.values())
