"""Which positions may attend to which, as a picture: mask, attention layout, padding and documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.documents.nodes import Grid, Grids, Node, Sentence
from attnlab.explain.explanation import Explanation

Pairs = Sequence[Sequence[bool]]
"""(T,T): whether a row may attend to a column."""


@dataclass(frozen=True)
class MaskPicture(Explanation):
    """Every pair of positions, allowed or not, by one mask or by several."""

    words: Sequence[str]
    source: int
    """How many of them are read as a source."""
    masks: Mapping[str, Pairs]
    attention: str
    """The attention whose layout it is, as it is written."""
    numbers: bool = False
    """Whether pairs are shown as 0, which may attend, and 1, which may not."""

    kind = "mask"

    @property
    def headline(self) -> str:
        count = len(self.words)
        shares = {name: sum(map(sum, pairs)) for name, pairs in self.masks.items()}
        if len(shares) > 1:
            (first, pairs), *others = shares.items()
            told = [f"{first} allows {pairs}", *(f"{name} {allowed}" for name, allowed in others)]
            return f"Of {count**2} pairs of {count} positions, {', '.join(told)}."
        (allowed,) = shares.values()
        share = f"{allowed / count**2:.0%}"
        return f"{allowed} of {count**2} pairs of {count} positions may attend to each other ({share})."

    @property
    def remark(self) -> str:
        return f"model.mask = {', '.join(self.masks)}, model.attention = {self.attention}."

    def parts(self) -> list[Node]:
        names = [f"{number} {word}" for number, word in enumerate(self.words)]
        drawn = [self._grid(name, names, pairs) for name, pairs in self.masks.items()]
        meaning = " 0 may attend, 1 may not." if self.numbers else ""
        picture = drawn[0] if len(drawn) == 1 else Grids(drawn, title="Who may attend to whom")
        return [picture, Sentence(f"Rows attend to columns.{meaning}", "fine")]

    def _grid(self, name: str, names: Sequence[str], pairs: Pairs) -> Grid:
        title = name if len(self.masks) > 1 else "Who may attend to whom"
        if self.numbers:
            values = [[0.0 if may else 1.0 for may in row] for row in pairs]
            return Grid(names, self.words, values, title=title, written=True, noughts=True, upright=True)
        shades = [[1.0 if may else None for may in row] for row in pairs]
        key = ((1.0, "may attend"), (None, "may not"))
        return Grid(names, self.words, shades, title=title, key=key, upright=True)

    def as_json(self) -> dict[str, Any]:
        first = next(iter(self.masks.values()))
        named = {"masks": dict(self.masks)} if len(self.masks) > 1 else {}
        return {"words": list(self.words), "source": self.source, "may_attend": first, **named}
