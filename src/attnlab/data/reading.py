"""One reading of a corpus for all that needs it: text is read once, and looked at by all cores."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from attnlab.data import shards
from attnlab.data.encode.encoding import Cuts, Encoding, chunks
from attnlab.data.example import Example
from attnlab.data.rows import Columns
from attnlab.data.workers import in_order


class TextObserver(Protocol):
    """Sees every text of a reading: `look` in whatever process, `take` here, in the order of the text."""

    def look(self, split: str, first: int, chunk: Sequence[Example]) -> Any:
        """What is found in some texts of a split, of which the first is number `first`."""

    def take(self, split: str, chunk: Sequence[Example], found: Any) -> None:
        """What was found in them."""


Piece = tuple[str, int, list[Example]]


def read_for(
    observers: Sequence[TextObserver], examples: Iterable[tuple[str, Example]], *, processes: int
) -> None:
    """Show examples with their splits to the observers, some thousands at a time."""
    waiting: deque[Piece] = deque()

    def kept(pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            waiting.append(piece)
            yield piece

    def look(piece: Piece) -> list[Any]:
        return [observer.look(*piece) for observer in observers]

    work: Callable[[Piece], list[Any]] = look
    for looks in in_order(work, kept(pieces_of(examples)), processes=processes):
        split, _, chunk = waiting.popleft()
        for observer, look_made in zip(observers, looks, strict=True):
            observer.take(split, chunk, look_made)


def pieces_of(examples: Iterable[tuple[str, Example]]) -> Iterator[Piece]:
    """Texts of one split together, with the number of the first, as many as are held at a time."""
    count: dict[str, int] = {}
    for split, chunk in chunks(examples):
        yield split, count.get(split, 0), chunk
        count[split] = count.get(split, 0) + len(chunk)


# ---------------------------------------------------------------- the texts of one reading, encoded
class JointProgress:
    """The progress of several splits that are tokenised together, as that of one piece of work."""

    def __init__(self, progress: shards.Progress):
        self.progress, self.counts = progress, dict[str, tuple[int, int]]()

    def of(self, split: str) -> shards.Progress:
        return functools.partial(self._tell, split)

    def _tell(self, split: str, rows: int, tokens: int, share: float | None) -> None:
        self.counts[split] = rows, tokens
        rows, tokens = (sum(column) for column in zip(*self.counts.values(), strict=True))
        self.progress(rows, tokens, share)


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

    def take(self, split: str, chunk: Sequence[Example], encoded: tuple[Columns, Cuts] | None) -> None:
        if encoded is None:
            return
        if split not in self.writers:
            self.cuts[split] = Cuts()
            self.writers[split] = self.stack.enter_context(self.writer_of(split, self.cuts[split]))
        columns, cuts = encoded
        self.cuts[split].add(cuts)
        if columns:
            self.writers[split].add(columns)
