"""The text that a model was trained on, where it can be compared with what it is scored on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from attnlab.data.dataset import Dataset

LARGEST = 32 << 20
"""Bytes of text beyond which it is not hashed."""


class Unread(StrEnum):
    """Why the rows that a model was trained on cannot be compared."""

    PUBLISHED = "published"
    GONE = "gone"
    CHANGED = "changed"
    LARGE = "large"


@dataclass(frozen=True)
class TrainedText:
    """What a model was trained on, under the `name` of its run: its text, or why that is not read. `words`
    says that the model learned the text itself, not its labels."""

    name: str
    dataset: Dataset | None = None
    unread: Unread | None = None
    words: bool = True

    @classmethod
    def of(cls, name: str, dataset: Dataset, *, fingerprint: str, words: bool) -> TrainedText:
        """The text as it is now, if it still has this fingerprint and is not too large."""
        if too_large(dataset):
            return cls(name, None, Unread.LARGE, words)
        if dataset.text_fingerprint != fingerprint:
            return cls(name, None, Unread.CHANGED, words)
        return cls(name, dataset, None, words)


def too_large(dataset: Dataset) -> bool:
    return (dataset.corpus.size or 0) > LARGEST
