"""Models with something wrong on purpose."""

from __future__ import annotations

import torch
from torch import nn

from attnlab.config.files import section_of
from attnlab.model.assemble import build_model

VOCABULARY = 23
SIZES = {"vocabulary": VOCABULARY, "length": 48, "width": 16, "heads": 4, "layers": 2}


def small(**settings):
    return build_model(section_of("model", SIZES | settings), seed=0)


class Leaky(nn.Module):
    """Wraps a module: its output at each position gets a little of what `peek` shows of the row."""

    def __init__(self, inner, peek, size=1e-3, only_in=None):
        super().__init__()
        self.inner, self.peek, self.size, self.only_in = inner, peek, size, only_in

    def forward(self, x, *rest, **named):
        y = self.inner(x, *rest, **named)
        if self.only_in is not None and self.training != (self.only_in == "training"):
            return y
        return y + self.size * self.peek(y)


def next_token(y):
    """Each position sees the next one."""
    return torch.cat([y[:, 1:], torch.zeros_like(y[:, :1])], 1)


def block_mean(size):
    """Each position sees the mean of its block, the part that comes after it included."""

    def peek(y):
        whole = y.shape[1] // size * size
        means = y[:, :whole].unflatten(1, (-1, size)).mean(2, keepdim=True)
        return torch.cat([means.expand(-1, -1, size, -1).flatten(1, 2), torch.zeros_like(y[:, whole:])], 1)

    return peek


def leaking(layer=0, **settings):
    """A decoder whose feed-forward of one layer leaks."""
    model = small()
    residual = model.trunk.decoder.blocks[layer].residuals[1]
    residual.inner = Leaky(residual.inner, next_token, **settings)
    return model
