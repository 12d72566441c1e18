"""By which way a leak gets in: what is to be mended depends on it."""

from __future__ import annotations

from typing import Literal

from torch import nn

from attnlab.model.blocks import Attention
from attnlab.model.model import Model

Cause = Literal["scores", "embedding", "other"]
FIXES: dict[Cause, str] = {
    "scores": "Apply the mask to the scores before the softmax, as −inf, on every path; in linear attention, "
    "to the keys before they are summed.",
    "embedding": "Let an embedding depend on its own token and position alone: not on the length of the row, "
    "and not on its other tokens.",
    "other": "The mask is not at fault: this module joins positions outside attention. Take norms, means and "
    "other statistics from each position alone (LayerNorm or RMSNorm over the width), and let convolutions "
    "and shifts look back only.",
}
ACROSS_TEXTS = (
    "The mask is not at fault: statistics are taken over the batch. Normalise each position by itself "
    "(LayerNorm or RMSNorm over the width) instead of over the batch (BatchNorm)."
)


def cause_of(model: nn.Module, place: str) -> Cause:
    """In what kind of part a leak begins, by the name of the module that `origin` gave."""
    parts = place.split(" ")[0].split(".")
    outer = [model.get_submodule(".".join(parts[:count])) for count in range(1, len(parts) + 1)]
    if isinstance(model, Model):
        entrances = model.trunk.entrances()
    else:
        entrances = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    if any(one is entrance for one in outer for entrance in entrances):
        return "embedding"
    return "scores" if not place or any(map(attends, outer)) else "other"


def attends(module: nn.Module) -> bool:
    """Whether it is an attention: one of ours, or by its name one of others."""
    return isinstance(module, Attention) or "attention" in type(module).__name__.lower()
