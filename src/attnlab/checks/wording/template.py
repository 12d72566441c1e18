"""Sentences with gaps, which the values of a finding fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Sentences:
    """What was found, what it means and what to do: as text, or with gaps such as {n:,}."""

    found: str
    meaning: str = ""
    fix: str = ""

    def filled(self, values: Values) -> Sentences:
        return Sentences(*(text.format_map(values) for text in (self.found, self.meaning, self.fix)))


Template = Sentences | Callable[[Values], Sentences]
