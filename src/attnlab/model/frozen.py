"""A trunk that gives the same for the same text, whatever is trained on it."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from attnlab.model.attention.rule import Rule
from attnlab.model.trunks.trunk import Trunk


def dropouts(trunk: Trunk) -> Iterator[tuple[nn.Module, str, float]]:
    """Every part that draws what it drops: the module, its attribute, and its rate above 0."""
    for part in trunk.modules():
        name = "p" if isinstance(part, nn.Dropout) else "dropout" if isinstance(part, Rule) else ""
        if name and getattr(part, name) > 0:
            yield part, name, getattr(part, name)


def is_fixed(trunk: Trunk) -> bool:
    """Whether nothing in it is trained and nothing is drawn: its output is a function of the text alone."""
    trained = any(p.requires_grad for part in trunk.modules() for p in part.parameters(recurse=False))
    return not trained and not any(dropouts(trunk))
