"""The texts of one reading, encoded into the shards of several splits at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from attnlab.data import shards
from attnlab.data.encode.encoding import Cuts, Encoding
from attnlab.data.example import Example
from attnlab.data.rows import Columns


class JointProgress:
    """The progress of several splits that are tokenised together, as that of one piece of work."""

    def __init__(self, told: shards.Progress):
        self.told, self.counts = told, dict[str, tuple[int, int]]()

    def of(self, split: str) -> shards.Progress:
        return functools.partial(self._tell, split)

    def _tell(self, split: str, rows: int, tokens: int, share: float | None) -> None:
        self.counts[split] = rows, tokens
        rows, tokens = (sum(column) for column in zip(*self.counts.values(), strict=True))
        self.told(rows, tokens, share)


class SplitEncoder:
    """Encodes the texts of a reading (reading.py), each split into shards of its own."""

    def __init__(
        self,
        encoding: Encoding,
        vocabulary: int,
        splits: Sequence[str],
        writer_of: Callable[[str, Cuts], shards.ShardWriter],
        stack: ExitStack,
    ):
        self.encoding, self.vocabulary, self.splits = encoding, vocabulary, splits
        self.writer_of, self.stack = writer_of, stack
        self.writers: dict[str, shards.ShardWriter] = {}
        self.cuts: dict[str, Cuts] = {}

    def look(self, split: str, first: int, chunk: Sequence[Example]) -> tuple[Columns, Cuts] | None:
        return self.encoding.columns(chunk, first, self.vocabulary) if split in self.splits else None

    def take(self, split: str, chunk: Sequence[Example], found: tuple[Columns, Cuts] | None) -> None:
        if found is None:
            return
        if split not in self.writers:
            self.cuts[split] = Cuts()
            self.writers[split] = self.stack.enter_context(self.writer_of(split, self.cuts[split]))
        columns, cuts = found
        self.cuts[split].add(cuts)
        if columns:
            self.writers[split].add(columns)
