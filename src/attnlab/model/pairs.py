"""The mask and the bias between given queries and keys: computed when asked, and once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.model.masks import All, Bidirectional, Causal, Documents, Mask, Padding
from attnlab.model.tokens import Tokens

BiasOf = Callable[[Tokens, Tokens], Tensor]
"""(queries, keys) -> (B|1, H, T, S), added to the scores."""


class Pairs:
    """What lies between queries and keys.

    `pattern` is the model's own mask, which `zero` masking removes after the softmax; `layout`
    (padding, documents, the blocks of a rule) is always removed before it.
    """

    def __init__(
        self,
        queries: Tokens,
        keys: Tokens,
        pattern: Mask = Bidirectional(),
        bias_of: BiasOf | None = None,
        layout: Mask = Bidirectional(),
    ):
        if keys.real is not None:
            layout = layout & Padding()
        if (keys.document is None) != (queries.document is None):
            raise ValueError(
                "Documents are packed on one side only: say of target and source alike (of queries and keys) "
                "which document each token is in."
            )
        if keys.document is not None:
            layout = layout & Documents()
        self.queries, self.keys, self.pattern, self.bias_of = queries, keys, pattern, bias_of
        self.layout: Mask = All((layout,))
        self.mask: Mask = All((pattern, layout))
        self.twin: Pairs | None = None  # the same pairs without the bias, whose masks are these
        self.parts: dict[Hashable, Any] = {}  # into which rules divide them, once for all layers

    @cached_property
    def structure(self) -> Literal["all", "causal", "dense"]:
        """What fast paths may rely on, from static facts only; causal is square and aligned top left."""
        terms = self.mask.terms
        if not terms:
            return "all"
        if terms == (Causal(),) and self.queries.span and self.keys.span:
            if self.queries.span == self.keys.span:
                return "causal"
            if self.keys.span.stop - 1 <= self.queries.span.start:
                return "all"
        return "dense"

    @property
    def triangular(self) -> bool:
        """Whether nothing right of the diagonal is allowed, known without looking at the mask."""
        return Causal() in self.mask.terms and bool(self.queries.span) and self.queries.span == self.keys.span

    @cached_property
    def allowed(self) -> Tensor | None:
        """bool (B|1, 1, T, S), or None where everything is."""
        return self._evaluate(self.mask) if self.twin is None else self.twin.allowed

    @cached_property
    def laid_out(self) -> Tensor | None:
        """`allowed` by the layout alone."""
        return self._evaluate(self.layout) if self.twin is None else self.twin.laid_out

    @cached_property
    def patterned(self) -> Tensor | None:
        """`allowed` by the pattern alone."""
        return self._evaluate(self.pattern) if self.twin is None else self.twin.patterned

    @cached_property
    def bias(self) -> Tensor | None:
        """(B|1, H, T, S), or None."""
        return None if self.bias_of is None else self.bias_of(self.queries, self.keys)

    @cached_property
    def scores_mask(self) -> Tensor | None:
        """Bias and mask in one tensor, as torch's own attention takes it."""
        if self.bias is None or self.allowed is None:
            return self.allowed if self.bias is None else self.bias
        return torch.where(self.allowed, self.bias, -torch.inf)

    def _evaluate(self, mask: Mask) -> Tensor | None:
        return mask(self.queries, self.keys)[:, None] if mask.terms else None

    def with_bias(self, bias_of: BiasOf) -> Pairs:
        """The same pairs with a bias; masks are computed once for all."""
        pairs = Pairs(self.queries, self.keys, self.pattern, bias_of, self.layout)
        pairs.twin = self
        return pairs

    def within(self, layout: Mask) -> Pairs:
        """Only those pairs that this layout has too."""
        return Pairs(self.queries, self.keys, self.pattern, self.bias_of, self.layout & layout)

    def between(self, queries: Tokens, keys: Tokens) -> Pairs:
        """The same mask and bias between other tokens."""
        return Pairs(queries, keys, self.pattern, self.bias_of, _without_data(self.layout))

    def take(self, query_blocks: Tensor, key_blocks: Tensor) -> Pairs:
        """The pairs inside blocks: orders (B, G, M) and (B, G, N) of places, -1 where there is none."""
        queries = self.queries.take(query_blocks)
        same = self.queries is self.keys and query_blocks is key_blocks
        return self.between(queries, queries if same else self.keys.take(key_blocks))


def _without_data(layout: Mask) -> Mask:
    """The layout less what a batch carries, which the new tokens bring with them."""
    return All(tuple(term for term in layout.terms if not isinstance(term, (Padding, Documents))))
