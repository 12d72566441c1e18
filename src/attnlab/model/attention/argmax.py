"""Argmax (hard) attention."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.model.attention.rule import Masking, Rule, masked_softmax, spread
from attnlab.model.pairs import Pairs

ROUNDING = 64
"""Steps of the number type, of the largest score, within which scores are equal."""


class Argmax(Rule):
    """Hard attention: each query takes the value of its best key, and of no other.

    Formula: V[argmax_j q·k_j], of equal keys the first. `straight_through` keeps that output and
    takes the softmax's gradient instead.

    Cost: O(n²·K) time; plain, its gradient to queries and keys is exactly zero, so nothing
    teaches it where to look.

    When it helps: to see what the softmax's gradient is worth, and how far information travels:
    with k heads and residuals, a token sees at most (k+1)ⁿ tokens at depth n.

    Paper: Bengio et al. 2013, "Estimating or Propagating Gradients Through Stochastic Neurons"
    (the straight-through estimator).
    """

    takes_dropout = False
    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"straight_through": True})

    def __init__(self, masking: Masking = "-inf", *, straight_through: bool = False):
        super().__init__(masking)
        self.straight_through = straight_through

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-1, -2)

    def normalise(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        hard = _one_hot(scores.detach(), allowed)
        if not self.straight_through:
            return hard
        soft = masked_softmax(scores, allowed)
        return hard + soft - soft.detach()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        if self.straight_through or self.masking == "zero":
            return super().forward(q, k, v, pairs)
        with torch.no_grad():
            scores = self.scores(q, spread(k, q.shape[1]))
            if pairs.bias is not None:
                scores = scores + pairs.bias.to(scores.dtype)
            if pairs.allowed is not None:
                scores = scores.masked_fill(~pairs.allowed, -torch.inf)
            best = first_best(scores)[..., None]
        taken = spread(v, q.shape[1]).gather(2, best.expand(-1, -1, -1, v.shape[-1]))
        if pairs.allowed is None:
            return taken
        return torch.where(pairs.allowed.any(-1, keepdim=True), taken, 0.0)

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        return 2 * queries * keys * heads * head_width  # scores; the value is only looked up

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        return queries * heads


def first_best(scores: Tensor) -> Tensor:
    """(…,S) -> (…) the best key of each query, the first of equal ones. Equal keys, such as a word that comes
    twice, may score differently by rounding, and by another with other texts in the batch."""
    largest = scores.amax(-1, keepdim=True)
    magnitude = scores.masked_fill(scores == -torch.inf, 0.0).abs().amax(-1, keepdim=True)
    equal = scores >= largest - ROUNDING * torch.finfo(scores.dtype).eps * magnitude
    return equal.to(torch.uint8).argmax(-1)


def _one_hot(scores: Tensor, allowed: Tensor | None) -> Tensor:
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    hard = F.one_hot(first_best(scores), scores.shape[-1]).to(scores.dtype)
    return hard if allowed is None else hard * allowed
