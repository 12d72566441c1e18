"""By which way a leak gets in: what is to be mended depends on it."""

from __future__ import annotations

from typing import Literal

from torch import nn

from attnlab.model.blocks import Attention
from attnlab.model.model import Model

Cause = Literal["scores", "embedding", "other"]


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
