"""What a position scheme makes of distance: inner products of its vectors, or what it adds to scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Axis, Figure, Inline, Line, Lines, Node, Number, Sentence, Table
from attnlab.documents.numbers import short
from attnlab.explain.explanation import Explanation
from attnlab.model.positions.position import Position
from attnlab.model.tokens import Tokens

What = Literal["vectors", "turned", "bias"]
TITLES: Mapping[What, str] = {
    "vectors": "Inner product of two position vectors",
    "turned": "Inner product of a vector with itself, each turned by its position",
    "bias": "What is added to the score",
}
MOST_HEADS = 8
"""Heads whose bias is drawn, each by its own line."""
SHOWN = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Distances of the table."""


@dataclass(frozen=True)
class DistanceCurve:
    """Values by distance 0, 1, 2, …: the mean over all pairs so far apart, the least and the largest."""

    name: str
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class PositionProducts(Explanation):
    """One scheme over rows of `length` positions, of keys that come before the query."""

    scheme: str
    what: What
    length: int
    curves: Sequence[DistanceCurve]
    learned: bool = False
    """Whether it has parameters, which are shown as they begin."""

    kind = "positions"

    @property
    def title(self) -> str:
        """What its numbers are."""
        return TITLES[self.what]

    @property
    def headline(self) -> str:
        first = self.curves[0].mean
        if self.what == "bias":
            last = len(first) - 1
            return f"Head 0 adds {short(first[0])} to a score at distance 0, {short(first[last])} at {last}."
        share = first[1] / first[0] if first[0] else 0.0
        least = min(range(len(first)), key=lambda distance: first[distance])
        return (
            f"Neighbours have {share:.0%} of the inner product of a position with itself "
            f"({short(first[0])}); "
            "the "
            f"least is {short(first[least])}, at distance {least}."
        )

    @property
    def remark(self) -> str:
        spread = max(high - low for c in self.curves for low, high in zip(c.low, c.high, strict=True))
        alike = spread <= 1e-4 * max(abs(value) for c in self.curves for value in (*c.low, *c.high, 1e-9))
        begun = " Shown as it begins: training changes it." if self.learned else ""
        if alike:
            return f"{self.scheme}: it depends on the distance alone, wherever the two stand.{begun}"
        return f"{self.scheme}: at one distance it differs by up to {short(spread)}, by place.{begun}"

    def parts(self) -> list[Node]:
        x = [float(distance) for distance in range(self.length)]
        lines = [Line(c.name, x, list(c.mean), low=list(c.low), high=list(c.high)) for c in self.curves]
        chart = Lines(lines, Axis("distance between query and key, tokens"), Axis(self.title.lower()))
        return [Figure.of(self.title, chart), self._table()]

    def _table(self) -> Table:
        distances = [distance for distance in SHOWN if distance < self.length]
        rows: list[list[Inline]] = [
            [d, *(Number(c.mean[d], decimals=3) for c in self.curves)] for d in distances
        ]
        return Table(["distance", *(c.name for c in self.curves)], rows)

    def page_parts(self) -> list[Node]:
        note = "The band is the least and the largest at each distance, over all places."
        return [*self.parts(), Sentence(note, "fine")]

    def as_json(self) -> dict[str, Any]:
        curves = [{**vars(curve)} for curve in self.curves]
        return {"scheme": self.scheme, "what": self.what, "length": self.length, "curves": curves}


@dataclass(frozen=True)
class PositionSizes:
    """Of the model that a scheme is in."""

    width: int
    heads: int
    head_width: int


@dataclass(frozen=True)
class PositionGrids:
    """What a scheme makes of every pair of positions: named grids (T,T), rows are queries."""

    what: What
    grids: Mapping[str, Tensor]
    learned: bool
    vectors: Tensor | None = None
    """(T,D) of a scheme that adds vectors, or puts them beside the words'."""


@torch.no_grad()
def position_grids(position: Position, sizes: PositionSizes, *, scheme: str, length: int) -> PositionGrids:
    """What a scheme of these sizes makes of `length` positions."""
    tokens, learned = Tokens.of(length), any(True for _ in position.parameters())
    bias = position.bias(0)
    if bias is not None:
        between = bias(tokens, tokens).expand(1, sizes.heads, length, length)[0]
        named = {f"head {head}": between[head] for head in range(min(sizes.heads, MOST_HEADS))}
        return PositionGrids("bias", named, learned)
    turn = position.rotation(tokens)
    if turn is not None:
        unit = torch.full((1, 1, length, sizes.head_width), sizes.head_width**-0.5)
        turned = turn(unit)[0, 0]
        return PositionGrids("turned", {"a vector of equal parts": turned @ turned.T}, learned=False)
    vectors = position(torch.zeros(1, length, sizes.width - position.narrows), tokens)[0]
    if not bool(vectors.any()):
        raise ConfigError(
            f"{scheme} gives tokens no position: nothing depends on distance. Choose one with "
            "--set model.positions=sinusoidal (attnlab list positions names them)."
        )
    return PositionGrids("vectors", {"position vectors": vectors @ vectors.T}, learned, vectors)


def position_products(
    position: Position, sizes: PositionSizes, *, scheme: str, length: int
) -> PositionProducts:
    """What a scheme makes of each distance between two positions."""
    made = position_grids(position, sizes, scheme=scheme, length=length)
    curves = [curve(name, grid) for name, grid in made.grids.items()]
    return PositionProducts(scheme, made.what, length, curves, made.learned)


def curve(name: str, grid: Tensor) -> DistanceCurve:
    """Of each diagonal at or below the main one its mean, least and largest."""
    diagonals = [grid.diagonal(-distance) for distance in range(len(grid))]
    return DistanceCurve(
        name,
        [float(diagonal.mean()) for diagonal in diagonals],
        [float(diagonal.min()) for diagonal in diagonals],
        [float(diagonal.max()) for diagonal in diagonals],
    )
