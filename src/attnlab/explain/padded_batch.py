"""A batch as the numbers that a model gets: ids padded to the longest row, with their mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Grid, Grids, Node, Sentence
from attnlab.explain.explanation import Explanation

LONGEST, MOST = 40, 32
"""Tokens of a row and rows of a batch that are shown."""


@dataclass(frozen=True)
class PaddedBatch(Explanation):
    """Rows of ids, padded with `pad` on one side."""

    rows: Sequence[Sequence[int]]
    pad: int
    side: str
    names: Sequence[str]

    kind = "padding"

    @property
    def longest(self) -> int:
        return max(map(len, self.rows))

    @property
    def padded(self) -> list[list[int]]:
        return [self._filled(row, self.pad) for row in self.rows]

    @property
    def mask(self) -> list[list[int]]:
        """1 where there is a token, 0 where there is padding."""
        return [self._filled([1] * len(row), 0) for row in self.rows]

    def _filled(self, row: Sequence[int], filling: int) -> list[int]:
        more = [filling] * (self.longest - len(row))
        return [*more, *row] if self.side == "left" else [*row, *more]

    @property
    def waste(self) -> float:
        """The share of the batch that is padding."""
        return 1 - sum(map(len, self.rows)) / (self.longest * len(self.rows))

    @property
    def headline(self) -> str:
        cells = self.longest * len(self.rows)
        return (
            f"{len(self.rows)} rows of up to {self.longest} tokens: {round(self.waste * cells)} of {cells} "
            "places "
            f"are padding ({self.waste:.0%})."
        )

    @property
    def remark(self) -> str:
        return "Rows of like length together waste less: data.batching = longest_first or bucketed."

    def parts(self) -> list[Node]:
        columns = [str(place) for place in range(self.longest)]
        ids = Grid(self.names, columns, self.padded, title="ids", written=True, noughts=True)
        mask = Grid(self.names, columns, self.mask, title="mask", written=True, noughts=True)
        note = (
            f"Mask: 1 is a token, 0 is padding (id {self.pad}), which no token attends to and no loss counts."
        )
        return [ids, mask, Sentence(note, "fine")]

    def page_parts(self) -> list[Node]:
        ids, mask, note = self.parts()
        assert isinstance(ids, Grid) and isinstance(mask, Grid)
        return [Grids([ids]), Grids([mask]), note]

    def as_json(self) -> dict[str, Any]:
        return {
            "ids": self.padded,
            "mask": self.mask,
            "waste": self.waste,
            "pad": self.pad,
            "side": self.side,
        }


def padded_batch(
    rows: Sequence[Sequence[int]], *, pad: int = 0, side: str = "right", names: Sequence[str] = ()
) -> PaddedBatch:
    """A batch of rows of ids."""
    if not rows or not all(rows):
        raise ConfigError("A row has no tokens; give rows such as 4,7,9 or texts.")
    if len(rows) > MOST or max(map(len, rows)) > LONGEST:
        raise ConfigError(
            f"{len(rows)} rows of up to {max(map(len, rows))} tokens cannot be read; give up to {MOST} "
            "rows of "
            f"up to {LONGEST}."
        )
    return PaddedBatch(rows, pad, side, list(names) or [f"row {number}" for number in range(len(rows))])
