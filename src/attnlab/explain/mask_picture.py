"""Which positions may attend to which, as a picture: mask, attention layout, padding and documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.documents.nodes import Grid, Node, Sentence
from attnlab.explain.explanation import Explanation


@dataclass(frozen=True)
class MaskPicture(Explanation):
    """Every pair of positions, allowed or not."""

    words: Sequence[str]
    source: int
    """How many of them are read as a source."""
    may_attend: Sequence[Sequence[bool]]
    settings: str
    """The settings that make it, as they are written."""

    kind = "mask"

    @property
    def headline(self) -> str:
        allowed, count = sum(map(sum, self.may_attend)), len(self.words)
        share = f"{allowed / count**2:.0%}"
        return f"{allowed} of {count**2} pairs of {count} positions may attend to each other ({share})."

    @property
    def remark(self) -> str:
        return f"{self.settings}."

    def parts(self) -> list[Node]:
        names = [f"{number} {word}" for number, word in enumerate(self.words)]
        values = [[1.0 if may else None for may in row] for row in self.may_attend]
        key = ((1.0, "may attend"), (None, "may not"))
        return [
            Grid(names, names, values, title="Who may attend to whom", key=key),
            Sentence("Rows attend to columns.", "fine"),
        ]

    def as_json(self) -> dict[str, Any]:
        return {"words": list(self.words), "source": self.source, "may_attend": self.may_attend}
