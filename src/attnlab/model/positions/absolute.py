"""Positions as vectors beside the words: added, or concatenated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count, Whole
from attnlab.model.positions.position import Patches, Position, check_length, grid_places
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens

ScaleOf = Callable[[int], float]
"""What a learned table of this width is multiplied by, as that of the words is."""


def unscaled(width: int) -> float:
    return 1.0


def sinusoids(position: Tensor, width: int, *, base: float = 10_000.0) -> Tensor:
    """(…) -> (…, width): sine and cosine in turn, of wavelengths from 2π to 2π·base."""
    return waves(position[..., None], width, base)


def grid_sinusoids(places: Tensor, width: int, *, base: float = 10_000.0) -> Tensor:
    """(…, 2) -> (…, width): the same on two axes, every other wave on the second."""
    axis = torch.arange((width + 1) // 2, device=places.device) % 2
    return waves(places[..., axis], width, base)


def waves(position: Tensor, width: int, base: float) -> Tensor:
    """Sine and cosine of each wave at its position (…, waves or 1)."""
    frequency = torch.exp(torch.arange(0, width, 2, device=position.device) * (-math.log(base) / width))
    angle = position * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :width]


def _sinusoids_at(tokens: Tokens, width: int) -> Tensor:
    """At each token: looked up where rows share positions, and computed alone where there are few tokens."""
    if tokens.position.numel() <= tokens.bound:
        return sinusoids(tokens.position, width)
    return sinusoids(torch.arange(tokens.bound, device=tokens.position.device), width)[tokens.position]


class Sinusoidal(Position):
    """Sinusoidal: fixed waves of many lengths are added to the embedding.

    Formula: p(t, 2i) = sin(t / 10000^(2i/D)), p(t, 2i+1) = cos(the same); x + p.

    Cost: no parameters; any length.

    When it helps: the first transformer's choice. Near positions have a high inner product
    (`attnlab explain positions`). A word and a position have a small one for their lengths, since random
    vectors in many dimensions are nearly orthogonal; but dense maps to queries and keys mix them, so that
    in scores the cross terms are as large as the others from the start (`attnlab explain scores`).
    Patches of a picture have waves by row and by column in turn (`patches=grid`), or by their order.

    Paper: Vaswani et al. 2017, "Attention Is All You Need".
    """

    later = ("patches",)

    def __init__(self, grid: int = 0, *, patches: Patches = "grid"):
        super().__init__()
        self.grid = grid if patches == "grid" else 0

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        places = grid_places(tokens, self.grid)
        if places is not None:
            return x + grid_sinusoids(places, x.shape[-1]).to(x.dtype)
        return x + _sinusoids_at(tokens, x.shape[-1]).to(x.dtype)


class Learned(Position):
    """Learned: one trained vector a position, added to the embedding.

    Formula: x + P[t + offset], both with the scale of the embedding.

    Cost: (length + offset)·D parameters, and an end: text beyond it is refused. Patches of a picture have a
    vector for their row and one for their column, of half the width each (`patches=grid`), or one for each
    place in the row of tokens, as ViT has it (`patches=order`).

    When it helps: fixed short contexts; BERT, RoBERTa (offset 2) and GPT-2 have it.

    Paper: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning"; Devlin et al. 2018.
    """

    later = ("patches",)

    def __init__(
        self,
        width: int,
        length: int,
        scale: ScaleOf = unscaled,
        grid: int = 0,
        *,
        offset: Whole = 0,
        patches: Patches = "grid",
    ):
        super().__init__()
        if offset < 0:
            raise ValueError(f"offset is {offset}; positions begin at 0 at the least.")
        self.width, self.length, self.offset, self.scale = width, length, offset, scale(width)
        self.table = nn.Embedding(length + offset, width)
        self.grid = grid if patches == "grid" else 0
        self.rows = nn.Embedding(self.grid, width // 2) if self.grid else None
        self.columns = nn.Embedding(self.grid, width - width // 2) if self.grid else None

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        check_length(tokens, self.length, "Learned")
        vectors = self.table(tokens.position + self.offset)
        places = grid_places(tokens, self.grid)
        if places is not None:
            assert self.rows is not None and self.columns is not None and tokens.patch is not None
            is_patch = tokens.patch > 0
            row, column = torch.where(is_patch[..., None], places, 0).unbind(-1)
            cells = torch.cat([self.rows(row), self.columns(column)], -1)
            vectors = torch.where(is_patch[..., None], cells, vectors)
        return x + vectors * self.scale

    def parameter_terms(self) -> list[Term]:
        formula = "(N + offset)·D" if self.offset else "N·D"
        terms = [Term("positions", formula, (self.length + self.offset) * self.width)]
        return [*terms, Term("patches", "side·D", self.grid * self.width)] if self.grid else terms


class Concat(Position):
    """Concatenated: some of the model's width is kept for the position, apart from the word.

    Formula: [x ; p(t)], with `part` numbers for p, and D − part for x.

    Cost: length·part parameters (none when sinusoidal); the token table is narrower by part.

    When it helps: to keep word and position apart. With q = k = z, or block-diagonal projections,
    scores have no cross terms; dense projections bring them back.

    Paper: Ke et al. 2021, "Rethinking Positional Encoding in Language Pre-training" (TUPE), which
    unties the two.
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({"part": 4},)

    def __init__(
        self,
        width: int,
        length: int,
        scale: ScaleOf = unscaled,
        *,
        part: Count = 16,
        table: Literal["learned", "sinusoidal"] = "learned",
    ):
        super().__init__()
        if not 0 < part < width:
            raise ValueError(
                f"concat keeps {part} of width {width} for positions; it must leave some for words."
            )
        self.narrows, self.length, self.scale = part, length, scale(part)
        self.table = nn.Embedding(length, part) if table == "learned" else None

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        if self.table is None:
            where = _sinusoids_at(tokens, self.narrows).to(x.dtype)
        else:
            check_length(tokens, self.length, "Concatenated")
            where = self.table(tokens.position) * self.scale
        return torch.cat([x, where.expand(*x.shape[:-1], -1)], -1)

    def parameter_terms(self) -> list[Term]:
        return [] if self.table is None else [Term("positions", "N·part", self.length * self.narrows)]
