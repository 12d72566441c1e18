"""Argmax (hard) attention."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.model.attention.rule import Masking, Rule, masked_softmax, spread
from attnlab.model.pairs import Pairs


class Argmax(Rule):
    """Hard attention: each query takes the value of its best key, and of no other.

    Formula: V[argmax_j q·k_j]. `straight_through` keeps that output and takes the softmax's
    gradient instead.

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
            best = scores.argmax(-1, keepdim=True)
        taken = spread(v, q.shape[1]).gather(2, best.expand(-1, -1, -1, v.shape[-1]))
        if pairs.allowed is None:
            return taken
        return torch.where(pairs.allowed.any(-1, keepdim=True), taken, 0.0)

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        return 2 * queries * keys * heads * head_width  # scores; the value is only looked up

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        return queries * heads


def _one_hot(scores: Tensor, allowed: Tensor | None) -> Tensor:
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    hard = F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)
    return hard if allowed is None else hard * allowed
