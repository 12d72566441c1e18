"""What every corpus can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from attnlab.data.errors import DataError
from attnlab.data.example import Example


class Corpus(ABC):
    """Where text comes from: read as often as wanted, each time the same."""

    @property
    def given(self) -> tuple[str, ...]:
        """The splits that come with the corpus; the others are made from "train"."""
        return ("train",)

    @property
    def skipped(self) -> int:
        """How many broken rows the last reading left out (only where a person allowed it)."""
        return 0

    def separators(self) -> dict[Path, str]:
        """What separates the columns of each of its files, where something does."""
        return {}

    @property
    def size(self) -> int | None:
        """Bytes of its text, all splits together; None where that is not known before it is read."""
        return None

    @property
    def share_read(self) -> float | None:
        """How much of the split that was last asked for has been read; None where that cannot be told."""
        return None

    @abstractmethod
    def read(self, split: str = "train") -> Iterator[Example]:
        """The examples of a given split, in an order that never changes."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that changes whenever what `read` yields may have changed."""

    def check_given(self, split: str) -> None:
        if split not in self.given:
            raise DataError(f'This corpus has no split "{split}"; it has {", ".join(self.given)}.')
