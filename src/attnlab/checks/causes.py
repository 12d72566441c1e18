"""By which way a leak gets in: what is to be mended depends on it."""

from __future__ import annotations

from typing import Literal

from torch import nn

from attnlab.model.blocks import Attention
from attnlab.model.transformer import Embedding

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
    """What kind of module a leak begins in, by the name that `origin` gave."""
    name = place.split(" ")[0]
    known: dict[type[nn.Module], Cause] = {Attention: "scores", Embedding: "embedding"}
    inside = [outer for outer in containing(name) if outer]
    for outer in inside:
        for kind, cause in known.items():
            if isinstance(model.get_submodule(outer), kind):
                return cause
    return "other" if inside else "scores"


def containing(name: str) -> list[str]:
    """A module's name and those of all that it is a part of, the innermost first."""
    parts = name.split(".") if name else []
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
