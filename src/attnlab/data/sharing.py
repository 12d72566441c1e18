"""Work that is divided among the processes of a run: piece i is done by process i modulo their number, and
results come together in the order of the pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Sharing(Protocol):
    """The processes that share work: this one's number, how many there are, and what each of them has."""

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...

    def gather(self, value: T) -> list[T]: ...


class Unshared:
    """One process does all of it."""

    rank, world = 0, 1

    def gather(self, value: T) -> list[T]:
        return [value]


UNSHARED = Unshared()


def own_pieces(sharing: Sharing, count: int) -> range:
    """The pieces of this process, of so many."""
    return range(sharing.rank, count, sharing.world)


def in_order_of_pieces(gathered: Sequence[Sequence[T]]) -> list[T]:
    """What each process made of its pieces, by rank, as one list in the order of the pieces."""
    count, world = sum(map(len, gathered)), len(gathered)
    return [gathered[number % world][number // world] for number in range(count)]
