"""The contract of a trunk: token ids to hidden states, and by name what others need to know of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from attnlab.model.blocks import Attention
from attnlab.model.cache import Cache
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens

Sees = Literal["before", "source and before", "all"]
"""What an output may depend on: its text up to there; a source and its text up to there; later tokens too."""


@dataclass(frozen=True)
class Way:
    """How the inputs (S) of a row get to its outputs (T), as the trunk declares it.

    `near` (T,S) are the pairs that one layer joins, `reach` (T,S) those that all layers join together.
    """

    near: Tensor
    reach: Tensor


class Trunk(Protocol):
    """A torch module from ids (B,T) to hidden states (B,T,D). A head makes scores of them."""

    @property
    def width(self) -> int:
        """D, of its output."""

    @property
    def longest(self) -> float:
        """The most tokens of a row; inf where it reads any number."""

    @property
    def sees(self) -> Sees:
        """What an output may depend on, by its mask."""

    @property
    def reads_source(self) -> bool:
        """Whether an encoder reads a source beside the text, which it then needs."""

    @property
    def asks_for_source(self) -> bool:
        """Whether `tokens` must say which tokens of the text itself are its source."""

    @property
    def writes(self) -> bool:
        """Whether it goes on with a text, token by token, with a cache."""

    def __call__(
        self,
        ids: Tensor,
        tokens: Tokens | None = None,
        *,
        types: Tensor | None = None,
        vectors: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
        source_types: Tensor | None = None,
        encoded: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """ids (B,T) -> (B,T,D). `source` (B,S) or what `encode` made of it where it reads one; `vectors` are
        read beside the source then.

        Coordinates, and what was encoded, may be those of one row that stands for all.
        """

    def encode(
        self, source: Tensor, tokens: Tokens, types: Tensor | None = None, vectors: Tensor | None = None
    ) -> Tensor:
        """What the encoder makes of a source, (B,S) -> (B,S,D); `vectors` (B,S,W) are read beside it."""

    def cache(self) -> Cache:
        """An empty memory for decoding."""

    def entrances(self) -> list[nn.Module]:
        """Where ids become vectors (B,T,D), a module each: of the text, and then of a source. Checks perturb
        their outputs, which are in the order of the ids."""

    def tables(self) -> list[nn.Embedding]:
        """The token table of each entrance: one and the same, unless sources have a vocabulary of their own,
        or a tie is broken."""

    def ways(self, tokens: Tokens, source_tokens: Tokens | None = None) -> list[Way]:
        """From the ids of one row, and then from those of its source, where `source_tokens` are given; none
        where a row is read by an entrance that is not named."""

    def contexts(
        self,
        ids: Tensor,
        tokens: Tokens,
        types: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
    ) -> list[Hashable]:
        """Of one row, ids (T): equal for two places whose outputs are equal whatever the weights."""

    def attentions(self) -> Mapping[str, Attention]:
        """Every attention layer by a name that a person reads; none where there is none."""

    def parameter_terms(self) -> list[Term]:
        """Every parameter, from the parts' sizes alone."""

    def flop_terms(self, length: int, source_length: int) -> list[Term]:
        """Operations of one forward over one row."""

    def activation_terms(self, length: int, source_length: int) -> list[Term]:
        """Numbers that the backward keeps for one row."""

    # of a torch module
    def modules(self) -> Iterator[nn.Module]: ...
    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...
    def compile(self, *, dynamic: bool) -> Any: ...


def encoded_source(
    trunk: Trunk,
    source: Tensor | None,
    tokens: Tokens | None,
    types: Tensor | None,
    encoded: Tensor | None,
    vectors: Tensor | None = None,
) -> tuple[Tensor, Tokens]:
    """What an encoder makes of a source (B,S), unless that is given, and where its tokens stand."""
    given = source if encoded is None else encoded
    if given is None:
        raise ValueError("An encoder-decoder needs a source: give `source`, or `encoded`.")
    if tokens is None:
        tokens = Tokens.of(given.shape[1], device=given.device)
    if encoded is not None:
        return encoded, tokens
    beside = {} if vectors is None else {"vectors": vectors}
    return trunk.encode(given, tokens, types, **beside), tokens
