"""The contract of an attention rule, and what rules that form scores have in common."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.model.cache import KeyValues, LayerMemory
from attnlab.model.masks import Bidirectional, Mask
from attnlab.model.pairs import Pairs
from attnlab.model.terms import Term

Masking = Literal["-inf", "zero"]


class Rule(nn.Module):
    """One layer's attention over q (B,H,T,K) and k, v (B,H',S,K), where H' divides H.

    A rule that forms scores needs `scores` alone; `weights` is then the plain reference, and a
    faster `forward` is checked against it.
    """

    takes_bias: bool = True
    """Whether a bias for each pair can be added to the scores."""
    takes_dropout: bool = True
    """Whether there are weights to drop."""
    layout: Mask = Bidirectional()
    """The pairs that the rule looks at, whatever the mask."""
    examples: ClassVar[tuple[dict[str, object], ...]] = ({},)
    """Option sets that every contract test runs, small enough to matter on a few tokens."""

    def __init__(self, masking: Masking = "-inf", dropout: float = 0.0):
        super().__init__()
        self.masking, self.dropout = masking, dropout

    @property
    def horizon(self) -> float:
        """How many of the last keys a new query can need."""
        return self.layout.horizon

    def takes(self, mask: Mask) -> bool:
        """Whether the rule can honour this mask."""
        return True

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(B,H,T,S), before bias, mask and softmax; k has as many heads as q."""
        raise NotImplementedError

    def normalise(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        """Scores to weights, over the allowed pairs."""
        return masked_softmax(scores, allowed)

    def weights(self, q: Tensor, k: Tensor, pairs: Pairs) -> Tensor:
        """The attention weights (B,H,T,S), the plain way."""
        return self.weighted(self.scores(q, spread(k, q.shape[1])), pairs)

    def weighted(self, scores: Tensor, pairs: Pairs) -> Tensor:
        """Scores to weights: bias, mask and normalisation."""
        if pairs.bias is not None:
            scores = scores + pairs.bias.to(scores.dtype)
        if self.masking == "-inf":
            return self.normalise(scores, pairs.allowed)
        weights = self.normalise(scores, pairs.laid_out)
        return weights if pairs.patterned is None else weights * pairs.patterned

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        """The output (B,H,T,K), the fast way."""
        weights = F.dropout(self.weights(q, k, pairs), self.dropout, self.training)
        return weights @ spread(v, q.shape[1])

    def memory(self, keep: float) -> LayerMemory:
        """An empty memory for decoding, which holds the last `keep` keys at least."""
        return KeyValues(keep)

    def recall(self, memory: LayerMemory, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        """`forward` for new tokens, after those in memory; `pairs` is between new and all."""
        assert isinstance(memory, KeyValues)
        k, v = memory.extend(k, v)
        return self(q, k, v, pairs)

    def parameter_terms(self) -> list[Term]:
        """The rule's own parameters in closed form."""
        return []

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        """Floating-point operations of one forward over this many tokens, mask aside."""
        return 2 * 2 * queries * keys * heads * head_width  # scores, and weighted values

    def growth(self, pairs: str, tokens: str) -> str:
        """What its operations grow as, in letters: by pairs of tokens (N², M·N), or by tokens alone (N)."""
        return f"{pairs}·HK"

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        """Numbers kept for the backward, apart from q, k and v: scores and weights, as plainly computed."""
        return 2 * queries * keys * heads


def masked_softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Softmax over the allowed pairs; a row that may see nothing gets zeros, forward and backward."""
    if allowed is None:
        return scores.softmax(-1)
    something = allowed.any(-1, keepdim=True)
    weights = scores.masked_fill(~allowed & something, -math.inf).softmax(-1)
    return torch.where(allowed, weights, 0.0)


def spread(x: Tensor, heads: int) -> Tensor:
    """Grouped-query keys or values, repeated so that each query head has its own."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)
