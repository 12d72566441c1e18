"""Normalisation of one token's vector."""

from __future__ import annotations

from torch import nn

from attnlab.config.registry import Registry
from attnlab.model.terms import Term


def positive(eps: float) -> float:
    if eps <= 0:
        raise ValueError(f"eps is {eps}; it keeps a division from zero, so it must be above 0.")
    return eps


class LayerNorm(nn.LayerNorm):
    """Layer norm: zero mean and unit variance, then a gain and a shift.

    Formula: g·(x − mean) / √(var + eps) + b.

    Cost: 2·D parameters, or D in a model without biases.

    When it helps: the usual choice of encoders and of GPT-2.

    Paper: Ba et al. 2016, "Layer Normalization".
    """

    def __init__(self, width: int, bias: bool = True, *, eps: float = 1e-5):
        super().__init__(width, eps=positive(eps), bias=bias)
        self.width, self.shifted = width, bias

    def parameter_terms(self) -> list[Term]:
        return [Term("norm", "2·D" if self.shifted else "D", self.width * (2 if self.shifted else 1))]


class RMSNorm(nn.RMSNorm):
    """RMS norm: unit mean square, then a gain.

    Formula: g·x / √(mean(x²) + eps).

    Cost: D parameters.

    When it helps: as good as layer norm in most reports, with less to compute on an accelerator
    (torch's CPU kernel is the slower one); LLaMA and T5 have it.

    Paper: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization".
    """

    def __init__(self, width: int, *, eps: float = 1e-6):
        super().__init__(width, eps=positive(eps))
        self.width = width

    def parameter_terms(self) -> list[Term]:
        return [Term("norm", "D", self.width)]


class NoNorm(nn.Identity):
    """No normalisation.

    When it helps: as the control, and where a slot for a norm is to stay empty.
    """

    def parameter_terms(self) -> list[Term]:
        return []


NORMS: Registry[nn.Module] = Registry(
    "norms",
    base="torch.nn:Module",
    default="layer",
    variants={
        "layer": "attnlab.model.norms:LayerNorm",
        "rms": "attnlab.model.norms:RMSNorm",
        "none": "attnlab.model.norms:NoNorm",
    },
)
