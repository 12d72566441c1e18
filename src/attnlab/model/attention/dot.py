"""Scaled dot-product attention."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.config.ranges import NotNegative, Positive
from attnlab.model.attention.rule import Masking, Rule
from attnlab.model.pairs import Pairs


class Dot(Rule):
    """Scaled dot product: how well query and key align, through a softmax.

    Formula: softmax(s·QKᵀ)V with s = 1/√K (`scale=root`) or a given number; `softcap` c > 0 bends
    the scores to c·tanh(score / c).

    Cost: O(n²·K) time a head; torch's fused kernels need O(n) memory.

    When it helps: the default. With scale 1 the scores of independent unit-variance queries and
    keys have variance K, the softmax saturates and its gradient vanishes: set it to see that.

    Paper: Vaswani et al. 2017, "Attention Is All You Need".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"scale": 1.0})

    def __init__(
        self,
        head_width: int,
        masking: Masking = "-inf",
        dropout: float = 0.0,
        *,
        scale: Positive | Literal["root"] = "root",
        softcap: NotNegative = 0.0,
    ):
        super().__init__(masking, dropout)
        self.scale = head_width**-0.5 if scale == "root" else scale
        if softcap < 0:
            raise ValueError(f"softcap {softcap} is negative; use a positive bound, or 0 for none.")
        self.softcap = softcap

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = (q * self.scale) @ k.transpose(-1, -2)
        return self.softcap * (scores / self.softcap).tanh() if self.softcap else scores

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        if self.masking == "zero" or self.softcap or self._plain_is_faster(q, pairs):
            return super().forward(q, k, v, pairs)
        structure = pairs.structure if pairs.bias_of is None else "dense"
        mask = pairs.scores_mask if structure == "dense" else None
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask if mask is None or mask.dtype == torch.bool else mask.to(q.dtype),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=structure == "causal",
            scale=self.scale,
            enable_gqa=k.shape[1] != q.shape[1],
        )

    def _plain_is_faster(self, q: Tensor, pairs: Pairs) -> bool:
        """On a CPU torch's fused attention loses 4 × with dropout and 2.3 × with a learned bias."""
        if q.device.type != "cpu":
            return False
        learned = pairs.bias is not None and pairs.bias.requires_grad
        return learned or (self.training and self.dropout > 0)

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        if self.masking == "zero" or self.softcap or self.dropout:
            return super().saved_elements(queries, keys, heads, head_width)
        return queries * heads * (head_width + 1)  # the output, and each row's log-sum
