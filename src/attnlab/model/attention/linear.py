"""Linear attention, in chunks."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.model.attention.rule import Masking, Rule, spread
from attnlab.model.cache import LayerMemory
from attnlab.model.masks import Causal, Documents, Mask, Padding, Prefix
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens

CHUNK = 64
"""Tokens whose pairs are formed; everything further back comes from the running state."""


class Linear(Rule):
    """Linear: keys and values are summed into one state, which every query reads.

    Formula: φ(q_i)·Σ_j φ(k_j) v_jᵀ / φ(q_i)·Σ_j φ(k_j), with φ = elu + 1 or relu.

    Cost: O(n·K²) time a head, and a state of K×(K+1) numbers for decoding, whatever the length.

    When it helps: long sequences, and decoding in constant memory. It loses on exact recall: one
    state of fixed size cannot hold every key apart.

    Paper: Katharopoulos et al. 2020, "Transformers are RNNs".
    """

    takes_bias = False
    takes_dropout = False
    examples: ClassVar[tuple[dict[str, object], ...]] = ({}, {"feature": "relu"})

    def __init__(self, masking: Masking = "-inf", *, feature: Literal["elu", "relu"] = "elu"):
        super().__init__(masking)
        self.feature = feature

    @property
    def horizon(self) -> float:
        return 1  # the past is in the state

    def takes(self, mask: Mask) -> bool:
        return all(isinstance(term, (Causal, Prefix, Padding, Documents)) for term in mask.terms)

    def features(self, x: Tensor) -> Tensor:
        """φ(x): never negative, so that its products can be weights."""
        return F.elu(x) + 1 if self.feature == "elu" else F.relu(x)

    def weights(self, q: Tensor, k: Tensor, pairs: Pairs) -> Tensor:
        products = self.features(q) @ self.features(spread(k, q.shape[1])).transpose(-1, -2)
        if pairs.laid_out is not None:
            products = products * pairs.laid_out
        kept = products if pairs.patterned is None else products * pairs.patterned
        total = (kept if self.masking == "-inf" else products).sum(-1, keepdim=True)
        return _quotient(kept, total)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        ordered = any(not isinstance(term, Padding) for term in pairs.mask.terms)
        if not self.takes(pairs.mask):
            return super().forward(q, k, v, pairs)
        if ordered and pairs.queries is not pairs.keys:
            return self._behind(q, k, v, pairs)
        return self._divided(*self._sums(q, k, v, pairs)).to(q.dtype)

    def _behind(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        """Queries at the end of the keys: what stands before them all is a state, else plain."""
        ends = bool(pairs.queries.span) and pairs.queries.span.stop == pairs.keys.span.stop
        if ends and pairs.keys.document is None:
            return self.recall(RunningState(), q, k, v, pairs)
        return super().forward(q, k, v, pairs)

    def _sums(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Σ over the keys that the mask allows, and over those in the denominator; the last column counts."""
        q, k, v = self._extended(q, k, v, pairs.keys)
        seen = self._sum(q, k, v, pairs.pattern, pairs.keys)
        if self.masking == "-inf" or not pairs.pattern.terms:
            return seen, seen
        return seen, _both_ways(q, k, v, pairs.keys)

    def _extended(self, q: Tensor, k: Tensor, v: Tensor, keys: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Features, pad keys at zero, and a column of ones whose sum is the denominator.

        In float32 at the least: sums over a whole text overflow or swallow new terms in half precision.
        """
        q, k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
        q, k, v = self.features(q), self.features(spread(k, q.shape[1])), spread(v, q.shape[1])
        if keys.real is not None:
            k = k * keys.real[:, None, :, None]
        return q, k, torch.cat([v, torch.ones_like(v[..., :1])], -1)

    @staticmethod
    def _sum(q: Tensor, k: Tensor, v: Tensor, pattern: Mask, keys: Tokens) -> Tensor:
        if Causal() in pattern.terms:
            return _leftward(q, k, v, keys.document)
        if Prefix() in pattern.terms:
            assert keys.source is not None
            in_source = keys.source[:, None, :, None].to(k.dtype)
            source, target = k * in_source, k * (1 - in_source)
            return _both_ways(q, source, v, keys) + _leftward(q, target, v, keys.document)
        return _both_ways(q, k, v, keys)

    @staticmethod
    def _divided(seen: Tensor, counted: Tensor) -> Tensor:
        return _quotient(seen[..., :-1], counted[..., -1:])

    def memory(self, keep: float) -> LayerMemory:
        return RunningState()

    def recall(self, memory: LayerMemory, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        assert isinstance(memory, RunningState)
        ahead = k.shape[2] - q.shape[2]
        if ahead:  # keys before the text, at which no query stands: an adapter's
            memory.add(self._state(q, k[:, :, :ahead], v[:, :, :ahead], pairs.keys.part(0, ahead)))
            k, v = k[:, :, ahead:], v[:, :, ahead:]
        new = pairs.keys.last(q.shape[2])
        seen, counted = self._sums(q, k, v, pairs.between(pairs.queries, new))
        kind = q.dtype
        q, k, v = self._extended(q, k, v, new)
        if memory.state is not None:
            past = q @ memory.state
            seen, counted = seen + past, counted + past
        memory.add(k.transpose(-1, -2) @ v)
        return self._divided(seen, counted).to(kind)

    def _state(self, q: Tensor, k: Tensor, v: Tensor, keys: Tokens) -> Tensor:
        """What these keys and values come to, summed."""
        _, k, v = self._extended(q, k, v, keys)
        return k.transpose(-1, -2) @ v

    def growth(self, pairs: str, tokens: str) -> str:
        return f"{tokens}·HK²"

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        return 2 * (queries + keys) * heads * head_width * (head_width + 1)

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        return heads * (queries + keys) * (2 * head_width + 1)


class RunningState(LayerMemory):
    """Σ φ(k) [v, 1]ᵀ over the past: (B, H, K, K+1), whatever its length."""

    def __init__(self) -> None:
        self.state: Tensor | None = None

    def add(self, state: Tensor) -> None:
        self.state = state if self.state is None else self.state + state

    def select(self, rows: Tensor) -> None:
        self.state = None if self.state is None else self.state[rows]


def _quotient(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole, and zero where there is nothing to divide by."""
    some = whole > 0
    return torch.where(some, part / torch.where(some, whole, 1.0), 0.0)


def _both_ways(q: Tensor, k: Tensor, v: Tensor, keys: Tokens) -> Tensor:
    """Σ_j (q_i·k_j) v_j over the whole row, or over the query's own document."""
    if keys.document is None:
        return q @ (k.transpose(-1, -2) @ v)
    rightward = _leftward(q.flip(2), k.flip(2), v.flip(2), keys.document.flip(1)).flip(2)
    itself = (q * k).sum(-1, keepdim=True) * v  # in both sums
    return _leftward(q, k, v, keys.document) + rightward - itself


def _leftward(q: Tensor, k: Tensor, v: Tensor, document: Tensor | None) -> Tensor:
    """Σ_{j ≤ i} (q_i·k_j) v_j inside each document: pairs within a chunk, a running state across chunks."""
    T = q.shape[2]
    size = min(CHUNK, T)
    q, k, v = (_chunked(x, size) for x in (q, k, v))  # (B, H, N, size, ·)
    near = (q @ k.transpose(-1, -2)).tril()
    if document is None:
        running = (k.transpose(-1, -2) @ v).cumsum(2)
    else:
        own = F.pad(document, (0, -T % size), mode="replicate").unflatten(1, (-1, size))  # (B, N, size)
        near = near * (own[:, None, :, :, None] == own[:, None, :, None, :])
        last = own[:, :, -1]
        tail = k * (own == last[:, :, None])[:, None, :, :, None]  # only the last document goes on
        joined = (last[:, :, None] == last[:, None, :]).tril().to(k.dtype)
        states = tail.transpose(-1, -2) @ v
        running = torch.einsum("bnm,bhmkd->bhnkd", joined, states)
        goes_on = F.pad(own[:, 1:] == last[:, :-1, None], (0, 0, 1, 0))
        q = q * goes_on[:, None, :, :, None]
    before = F.pad(running[:, :, :-1], (0, 0, 0, 0, 1, 0))
    return (near @ v + q @ before).flatten(2, 3)[:, :, :T]


def _chunked(x: Tensor, size: int) -> Tensor:
    return F.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))
