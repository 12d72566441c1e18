"""The range of a number, as the annotation of a setting or of a constructor's option declares it.

`size: Count` says that a window has at least one token; the config refuses any other number when it loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

MOST = 2**31 - 1
"""Of whatever is counted in a tensor: libraries underneath hold such sizes in 32 bits."""


@dataclass(frozen=True)
class Range:
    """From `least` (or `above` it) to `most` (or `below` it); None where there is no such end."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def rule(self, value: float) -> str:
        """What a value that is not in it must be. The end of all counts is told where it was passed."""
        most = None if self.most == MOST and value <= MOST else self.most
        words = {"at least": self.least, "above": self.above, "at most": most, "below": self.below}
        return " and ".join(f"{word} {end:,}" for word, end in words.items() if end is not None)


Whole = Annotated[int, Range(least=0, most=MOST)]
Count = Annotated[int, Range(least=1, most=MOST)]
Words = Annotated[int, Range(least=1, most=10_000_000)]
"""Tokens of a vocabulary; the largest published ones have some 300,000."""
Seed = Annotated[int, Range(least=0)]
Share = Annotated[float, Range(least=0, most=1)]
BelowOne = Annotated[float, Range(least=0, below=1)]
AboveOne = Annotated[float, Range(above=1)]
Positive = Annotated[float, Range(above=0)]
Multiple = Annotated[float, Range(above=0, most=1_000_000)]
"""Of another size; the sizes of tensors stay within what a library can count."""
NotNegative = Annotated[float, Range(least=0)]
