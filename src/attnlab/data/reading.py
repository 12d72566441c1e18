"""One reading of a corpus for all that needs it: text is read once, and looked at by all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from attnlab.data.encode.encoding import chunks
from attnlab.data.example import Example
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
    for found in in_order(work, kept(pieces_of(examples)), processes=processes):
        split, _, chunk = waiting.popleft()
        for observer, one in zip(observers, found, strict=True):
            observer.take(split, chunk, one)


def pieces_of(examples: Iterable[tuple[str, Example]]) -> Iterator[Piece]:
    """Texts of one split together, with the number of the first, as many as are held at a time."""
    count: dict[str, int] = {}
    for split, chunk in chunks(examples):
        yield split, count.get(split, 0), chunk
        count[split] = count.get(split, 0) + len(chunk)
