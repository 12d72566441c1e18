"""Which pairs of tokens may attend: predicates over coordinates, True means "may".

Padding and document borders are no choice of the model: `Pairs` adds them whenever the batch
carries them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.config.ranges import Count
from attnlab.config.registry import Registry
from attnlab.model.tokens import Tokens


class Mask:
    """A predicate on (query, key) pairs; join masks with & and |."""

    @property
    def horizon(self) -> float:
        """How many of the last keys a new query can see at the most: what a cache must hold."""
        return math.inf

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        """bool (B|1, T, S)."""
        raise NotImplementedError

    @property
    def terms(self) -> tuple[Mask, ...]:
        """The masks that must all allow a pair; fast paths recognise their structure here."""
        return (self,)

    def __and__(self, other: Mask) -> Mask:
        return All((self, other))

    def __or__(self, other: Mask) -> Mask:
        return Any((self, other))


def _rows_and_columns(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    return queries[:, :, None], keys[:, None, :]


@dataclass(frozen=True)
class Causal(Mask):
    """Each token sees itself and what stands before it.

    Formula: j ≤ i, by order in the row.

    When it helps: language modelling from left to right; without it, or a mask inside it, a
    next-token loss at every position sees its own answer.

    Paper: Vaswani et al. 2017, "Attention Is All You Need".
    """

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        i, j = _rows_and_columns(queries.index, keys.index)
        return j <= i


@dataclass(frozen=True)
class Bidirectional(Mask):
    """Every token sees every token.

    Formula: always.

    When it helps: understanding, where the whole text is there from the start.

    Paper: Devlin et al. 2018, "BERT".
    """

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        i, j = _rows_and_columns(queries.index, keys.index)
        return torch.ones_like(i == j)

    @property
    def terms(self) -> tuple[Mask, ...]:
        return ()


def _in_source(keys: Tokens) -> Tensor:
    if keys.source is None:
        raise ValueError(
            "This mask asks which tokens are in the source, and the batch does not say; "
            "give `source` (batch, length), True in the source."
        )
    return keys.source[:, None, :]


@dataclass(frozen=True)
class Source(Mask):
    """Every token sees the source, and nothing else.

    Formula: j in source.

    When it helps: as a part of others: `source | causal` is `prefix`.
    """

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        return _in_source(keys).expand(-1, queries.length, -1)


@dataclass(frozen=True)
class Prefix(Mask):
    """The source sees all of the source; the target sees the source and its own left.

    Formula: j in source, or j ≤ i.

    When it helps: sequence-to-sequence with one stack, over source and target in one row.

    Paper: Dong et al. 2019, "Unified Language Model Pre-training" (UniLM).
    """

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        i, j = _rows_and_columns(queries.index, keys.index)
        return _in_source(keys) | (j <= i)


@dataclass(frozen=True, kw_only=True)
class Window(Mask):
    """Each token sees its neighbours, less than `size` away on both sides.

    Formula: |i − j| < size.

    When it helps: long texts in which near words matter most; with `causal &` before it, a
    decoder's sliding window. The mask alone saves no time: the attention rule `window` does.

    Paper: Beltagy et al. 2020, "Longformer".
    """

    size: Count = 64

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"A window of size {self.size} sees nothing; it must be at least 1.")

    @property
    def horizon(self) -> float:
        return self.size

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        i, j = _rows_and_columns(queries.index, keys.index)
        return (i - j).abs() < self.size


@dataclass(frozen=True)
class All(Mask):
    """Pairs that all of these masks allow, also written `a & b`.

    Formula: a ∧ b ∧ …
    """

    of: tuple[Mask, ...] = ()

    @property
    def terms(self) -> tuple[Mask, ...]:
        return tuple(dict.fromkeys(term for mask in self.of for term in mask.terms))

    @property
    def horizon(self) -> float:
        return min((term.horizon for term in self.terms), default=math.inf)

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        allowed = Bidirectional()(queries, keys)
        for term in self.terms:
            allowed = allowed & term(queries, keys)
        return allowed


@dataclass(frozen=True)
class Any(Mask):
    """Pairs that at least one of these masks allows, also written `a | b`.

    Formula: a ∨ b ∨ …
    """

    of: tuple[Mask, ...] = ()

    def __post_init__(self) -> None:
        if not self.of:
            raise ValueError("any() of no masks allows nothing; write a | b.")

    @property
    def terms(self) -> tuple[Mask, ...]:
        return () if any(not mask.terms for mask in self.of) else (self,)

    @property
    def horizon(self) -> float:
        return max((mask.horizon for mask in self.of), default=0)

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        allowed = ~Bidirectional()(queries, keys)
        for mask in self.of:
            allowed = allowed | mask(queries, keys)
        return allowed


@dataclass(frozen=True)
class Padding(Mask):
    """Padding is seen by nobody. Added to every mask when the batch says which tokens are real."""

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        assert keys.real is not None
        return keys.real[:, None, :].expand(-1, queries.length, -1)


@dataclass(frozen=True)
class Documents(Mask):
    """Packed documents do not see each other. Added to every mask when the batch is packed."""

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        assert queries.document is not None and keys.document is not None
        i, j = _rows_and_columns(queries.document, keys.document)
        return i == j


MASKS = Registry[Mask](
    "masks",
    base="attnlab.model.masks:Mask",
    default="causal",
    variants={
        "causal": "attnlab.model.masks:Causal",
        "bidirectional": "attnlab.model.masks:Bidirectional",
        "prefix": "attnlab.model.masks:Prefix",
        "window": "attnlab.model.masks:Window",
        "source": "attnlab.model.masks:Source",
        "all": "attnlab.model.masks:All",
        "any": "attnlab.model.masks:Any",
    },
)

GRID = 96
"""Wide enough that a mask with a reach of its own shows it when it is tried out."""


def _later_seen(mask: Mask, source: int) -> tuple[bool, bool]:
    """Whether some token sees a later one outside, and inside, a source of this length: by trying it out."""
    in_source = (torch.arange(GRID, device="cpu") < source)[
        None
    ]  # also where a model is only drafted on "meta"
    row = Tokens.of(GRID, source=in_source)
    seen = mask(row, row) & (row.index[:, None, :] > row.index[:, :, None])
    return bool((seen & ~in_source[:, None, :]).any()), bool((seen & in_source[:, None, :]).any())


def incremental(mask: Mask) -> bool:
    """Whether text can be written under this mask, one token after another: only a source may be ahead."""
    return not any(_later_seen(mask, source)[0] for source in (0, GRID // 3))


def backward_looking(mask: Mask) -> bool:
    """Whether no token sees any later one, in a source or not: what one-sided position schemes ask."""
    return not any(any(_later_seen(mask, source)) for source in (0, GRID // 3))


def asks_for_source(mask: Mask) -> bool:
    """Whether a mask must know which tokens are in the source, by trying it without."""
    row = Tokens.of(2, device="cpu")
    try:
        mask(row, row)
    except ValueError:
        return True
    return False
