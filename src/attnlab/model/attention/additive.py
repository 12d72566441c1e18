"""Additive attention, without ever holding a hidden vector for every pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attnlab.config.ranges import Count
from attnlab.model.attention.rule import Masking, Rule, spread
from attnlab.model.draws import fill_normal
from attnlab.model.pairs import Pairs
from attnlab.model.terms import Term


class Additive(Rule):
    """Additive: a small network with one hidden layer scores each pair.

    Formula: softmax(w·tanh(W q_i + U k_j)) V, with W, U (K×A) and w (A) in each head.

    Cost: O(n²·A) time, A times the dot product's elementwise work; pairs are scored in blocks and
    scored again in the backward, so memory stays O(n²).

    When it helps: where queries and keys do not live in one space; historically the first
    attention. Expect the dot product's quality at several times its cost.

    Paper: Bahdanau et al. 2014, "Neural Machine Translation by Jointly Learning to Align and
    Translate".
    """

    def __init__(
        self,
        heads: int,
        head_width: int,
        masking: Masking = "-inf",
        dropout: float = 0.0,
        *,
        hidden: Count | Literal["head_width"] = "head_width",
    ):
        super().__init__(masking, dropout)
        self.heads, self.head_width = heads, head_width
        self.hidden = head_width if hidden == "head_width" else hidden
        if self.hidden < 1:
            raise ValueError(f"additive attention with hidden {hidden} scores nothing; use at least 1.")
        self.query = nn.Parameter(torch.empty(heads, head_width, self.hidden))
        self.key = nn.Parameter(torch.empty(heads, head_width, self.hidden))
        self.vector = nn.Parameter(torch.empty(heads, self.hidden))
        self.initialise(None)

    def initialise(self, generator: torch.Generator | None) -> None:
        for parameter in (self.query, self.key):
            fill_normal(parameter, self.head_width**-0.5, generator)
        fill_normal(self.vector, self.hidden**-0.5, generator)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        hidden = (q @ self.query)[..., :, None, :] + (k @ self.key)[..., None, :, :]
        return torch.einsum("bhtsa,ha->bhts", hidden.tanh(), self.vector)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        k, v = spread(k, q.shape[1]), spread(v, q.shape[1])
        left_only = pairs.triangular and self.masking == "-inf"
        scores: Tensor = _PairScores.apply(q @ self.query, k @ self.key, self.vector, left_only)  # type: ignore[no-untyped-call]
        return F.dropout(self.weighted(scores, pairs), self.dropout, self.training) @ v

    def parameter_terms(self) -> list[Term]:
        size = self.heads * self.head_width * self.hidden
        return [
            Term("query map", "H·K·A", size),
            Term("key map", "H·K·A", size),
            Term("score vector", "H·A", self.heads * self.hidden),
        ]

    def growth(self, pairs: str, tokens: str) -> str:
        return f"{pairs}·HA"

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        maps = 2 * (queries + keys) * heads * head_width * self.hidden
        pair = 3 * self.hidden + 2 * head_width  # add, tanh as one, multiply-add; weighted values
        return maps + queries * keys * heads * pair


BLOCK = 2**18
"""Hidden units worked on at once: small enough to stay in a core's cache between passes."""
ROWS = 32
"""Rows of a block under a causal mask: what lies right of them is never computed."""


class _PairScores(torch.autograd.Function):
    """Σ_a w_a·tanh(x_ta + y_sa) for all pairs: hidden units live in a small block, never for all pairs.

    With r = 1/(1 + e^{2(x+y)}) − ½, tanh(x+y) = −2r and its slope is 1 − 4r². Since
    e^{2(x+y)} = e^{2x}·e^{2y}, the exponential is taken once a token, not once a pair; and since r is
    centred, sums of it lose nothing to cancellation where tanh is small.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, w: Tensor, left_only: bool) -> Tensor:
        ctx.save_for_backward(x, y, w)
        ctx.left_only = left_only
        B, H, T, S = *x.shape[:3], y.shape[2]
        scores = x.new_zeros(B * H, T, S)
        weight = w.repeat(B, 1)
        for heads, rows, columns, r in _blocks(x, y, left_only):
            mixed = weight[heads, None, :] @ r.flatten(2)
            scores[heads, rows, columns] = mixed.view(len(r), r.shape[2], r.shape[3])
        return scores.mul_(-2).view(B, H, T, S)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, y, w = ctx.saved_tensors
        B, H, T, A = x.shape
        S = y.shape[2]
        g = gradients[0].reshape(B * H, T, S)
        dx, dy = x.new_zeros(B * H, A, T), y.new_zeros(B * H, A, S)
        dr = x.new_zeros(B * H, A)
        for heads, rows, columns, r in _blocks(x, y, ctx.left_only):
            here = g[heads, None, rows, columns]
            gr = here * r
            dr[heads] += gr.sum((2, 3))
            slope = torch.addcmul(here, gr, r, value=-4)
            dx[heads, :, rows] += slope.sum(3)
            dy[heads, :, columns] += slope.sum(2)
        dw = -2 * dr.view(B, H, A).sum(0)
        each = w.repeat(B, 1)[:, :, None]
        dx = (dx * each).transpose(1, 2).reshape(x.shape)
        dy = (dy * each).transpose(1, 2).reshape(y.shape)
        return dx, dy, dw, None


def _blocks(x: Tensor, y: Tensor, left_only: bool) -> Iterator[tuple[slice, slice, slice, Tensor]]:
    """r = 1/(1 + e^{2(x+y)}) − ½ by blocks: (batch and head, rows, columns, r (·, A, rows, columns))."""
    B, H, T, A = x.shape
    S = y.shape[2]
    x, y = x.reshape(B * H, T, A).transpose(1, 2), y.reshape(B * H, S, A).transpose(1, 2)
    separable = _separable(x, y)
    if separable:
        x, y = (2 * x).exp(), (2 * y).exp()
    x, y = x.contiguous()[..., None], y.contiguous()[:, :, None, :]
    unit = x.new_ones(())
    height = min(T, ROWS) if left_only else max(1, min(T, BLOCK // (A * S)))
    for top in range(0, T, height):
        rows = slice(top, min(top + height, T))
        columns = slice(0, rows.stop if left_only else S)
        heads = max(1, BLOCK // (A * (rows.stop - rows.start) * columns.stop))
        for first in range(0, B * H, heads):
            some = slice(first, first + heads)
            left, right = x[some, :, rows], y[some, :, :, columns]
            r = (
                torch.addcmul(unit, left, right).reciprocal_()
                if separable
                else torch.sigmoid(-2 * (left + right))
            )
            r.sub_(0.5)
            yield some, rows, columns, r


def _separable(x: Tensor, y: Tensor) -> bool:
    """Whether e^{2x}·e^{2y} stays in range; where it does not, each pair's own sigmoid is taken."""
    if not x.numel() or not y.numel() or x.dtype not in (torch.float32, torch.float64):
        return False
    bound = 20.0 if x.dtype == torch.float32 else 160.0
    return bool((x.abs().amax() < bound) & (y.abs().amax() < bound))
