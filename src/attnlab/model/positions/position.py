"""The contract of a position scheme. One module serves a whole stack, in its self-attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from attnlab.model.pairs import BiasOf
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens

Rotation = Callable[[Tensor], Tensor]
"""Queries or keys (B,H,T,K), turned by where they stand."""


Patches = Literal["grid", "order"]
"""How patches of a picture are placed: by row and column, or one after the other as words are."""


class Position(nn.Module):
    """A scheme acts in one of three places: on the embedding, on queries and keys, or on scores."""

    narrows: int = 0
    """How much narrower than the model the token embedding must be."""
    gives_bias: ClassVar[bool] = False
    examples: ClassVar[tuple[dict[str, object], ...]] = ({},)

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        """The embeddings (B,T,·) with positions in them."""
        return x

    def rotation(self, tokens: Tokens) -> Rotation | None:
        """How these tokens' queries and keys are turned, computed once for all layers."""
        return None

    def bias(self, layer: int) -> BiasOf | None:
        """What a layer adds to its scores; the same callable for all layers that share it."""
        return None

    def parameter_terms(self) -> list[Term]:
        return []


class NoPosition(Position):
    """No positions at all.

    When it helps: as the control. An encoder without positions cannot tell "the man chased the
    dog" from its reverse; a decoder can, a little, since its causal mask shows where a row begins.

    Paper: Haviv et al. 2022, "Transformer Language Models without Positional Encodings Still Learn
    Positional Information".
    """


def grid_places(tokens: Tokens, side: int) -> Tensor | None:
    """(B|1, T, 2) where tokens stand on two axes: patches by row and column of their picture, `side` patches
    wide, and all others by their position on both. None where there are no patches."""
    if not side or tokens.patch is None:
        return None
    number = (tokens.patch - 1).clamp(min=0)
    cells = torch.stack([number // side, number % side], -1)
    return torch.where((tokens.patch > 0)[..., None], cells, tokens.position[..., None])


def check_length(tokens: Tokens, length: int, scheme: str) -> None:
    """Refuse text beyond the positions that exist. Positions are read only where some could be too large."""
    if tokens.bound <= length:
        return
    last = int(tokens.position.max())
    if last >= length:
        raise ValueError(
            f"{scheme} positions end at {length}, and this text has a token at {last}; "
            "cut the text, raise model.length, or use a scheme without an end (sinusoidal, rotary, alibi)."
        )
