"""The feed-forward part of a block: each token by itself, through a wider layer and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.config.ranges import BelowOne, Multiple
from attnlab.config.registry import Registry
from attnlab.model.draws import Dropout
from attnlab.model.products import LinearMap
from attnlab.model.terms import Term, linear

Approximate = Literal["none", "tanh"]
Approximations = Literal["none", "tanh", "sigmoid"]


class FeedForward(nn.Module):
    """W₂ f(W₁ x), with a hidden layer of round(expand·D) units and dropout after f."""

    examples: ClassVar[tuple[dict[str, object], ...]] = ({},)
    maps: ClassVar[int] = 2
    """How many matrices of width × hidden there are."""

    def __init__(
        self, width: int, bias: bool, dropout: float, activation: Callable[[Tensor], Tensor], expand: float
    ):
        super().__init__()
        self.width, self.biased, self.hidden = width, bias, round(expand * width)
        if self.hidden < 1:
            raise ValueError(f"expand {expand} leaves no hidden unit at width {width}; use a larger one.")
        self.up = LinearMap(width, self.hidden, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.down = LinearMap(self.hidden, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x))))

    def flops(self, tokens: int) -> int:
        return self.maps * 2 * tokens * self.width * self.hidden

    def parameter_terms(self) -> list[Term]:
        return [
            linear("up", self.width, self.hidden, self.biased, "D·E"),
            linear("down", self.hidden, self.width, self.biased, "E·D"),
        ]


class Gated(FeedForward):
    """W₂ (f(W_g x) ⊙ W₁ x): the hidden layer is gated by another of the same width."""

    maps = 3

    def __init__(
        self, width: int, bias: bool, dropout: float, activation: Callable[[Tensor], Tensor], expand: float
    ):
        super().__init__(width, bias, dropout, activation, expand)
        self.gate = LinearMap(width, self.hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))

    def parameter_terms(self) -> list[Term]:
        return [linear("gate", self.width, self.hidden, self.biased, "D·E"), *super().parameter_terms()]


class Gelu(FeedForward):
    """GELU: the smooth default.

    Formula: W₂ gelu(W₁ x), gelu(x) = x·Φ(x); `approximate=tanh` is GPT-2's form of it, `sigmoid` CLIP's,
    x·σ(1.702 x).

    Cost: 2·D·E parameters with E = expand·D.

    Paper: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = (
        {},
        {"approximate": "tanh"},
        {"approximate": "sigmoid"},
    )

    def __init__(
        self,
        width: int,
        bias: bool = True,
        *,
        expand: Multiple = 4.0,
        approximate: Approximations = "none",
        dropout: BelowOne = 0.0,
    ):
        gelu = sigmoid_gelu if approximate == "sigmoid" else partial(F.gelu, approximate=approximate)
        super().__init__(width, bias, dropout, gelu, expand)


def sigmoid_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


class Relu(FeedForward):
    """ReLU: the first transformer's choice.

    Formula: W₂ max(0, W₁ x).

    Cost: 2·D·E parameters with E = expand·D; the cheapest to compute.

    Paper: Vaswani et al. 2017, "Attention Is All You Need".
    """

    def __init__(self, width: int, bias: bool = True, *, expand: Multiple = 4.0, dropout: BelowOne = 0.0):
        super().__init__(width, bias, dropout, F.relu, expand)


class SwiGLU(Gated):
    """SwiGLU: a hidden layer gated by a SiLU.

    Formula: W₂ (silu(W_g x) ⊙ W₁ x).

    Cost: 3·D·E parameters; the default expand, LLaMA's own 43/16, brings that near a plain layer's
    with expand 4.

    Paper: Shazeer 2020, "GLU Variants Improve Transformer".
    """

    def __init__(self, width: int, bias: bool = True, *, expand: Multiple = 2.6875, dropout: BelowOne = 0.0):
        super().__init__(width, bias, dropout, F.silu, expand)


class GeGLU(Gated):
    """GeGLU: a hidden layer gated by a GELU.

    Formula: W₂ (gelu(W_g x) ⊙ W₁ x).

    Cost: 3·D·E parameters; T5's later form, with `approximate=tanh`.

    Paper: Shazeer 2020, "GLU Variants Improve Transformer".
    """

    def __init__(
        self,
        width: int,
        bias: bool = True,
        *,
        expand: Multiple = 2.6875,
        approximate: Approximate = "none",
        dropout: BelowOne = 0.0,
    ):
        super().__init__(width, bias, dropout, partial(F.gelu, approximate=approximate), expand)


FEEDFORWARDS: Registry[FeedForward] = Registry(
    "feedforwards",
    base="attnlab.model.feedforward:FeedForward",
    default="gelu",
    variants={
        "gelu": "attnlab.model.feedforward:Gelu",
        "relu": "attnlab.model.feedforward:Relu",
        "swiglu": "attnlab.model.feedforward:SwiGLU",
        "geglu": "attnlab.model.feedforward:GeGLU",
    },
)
