"""The processes that train one model together: who they are, and what one may ask of all.

Alone, every question has its plain answer; `JoinedProcesses` are several (joined_processes.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class Processes:
    """One process alone."""

    rank = local_rank = 0
    world = local_world = 1
    hosts: tuple[str, ...] = ()
    """Their machines, once they are connected."""
    backend = ""
    timeout = 600.0
    """Seconds that a collective waits for the others."""

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and talks."""
        return self.rank == 0

    def connect(self, device: torch.device, timeout: float) -> None:
        """Be ready for numbers to be exchanged; a collective waits so many seconds for the others."""

    def gather(self, value: T) -> list[T]:
        """What each process has, by rank."""
        return [value]

    def gather_to_first(self, value: T) -> list[T]:
        """What each process has, by rank, for the first one; nothing for the others."""
        return [value]

    def sum(self, number: int) -> int:
        return number

    def most(self, number: int) -> int:
        return number

    def of_first(self, value: T) -> T:
        """What the first process has."""
        return value

    def meet(self) -> None:
        """Wait until every process is here, however long it works, as long as it lives."""

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process of each machine goes first: what it keeps in the cache the others find there."""
        yield

    def claims(self, message: str) -> bool:
        """Whether this process is the first to say something, and so the one that says it."""
        return True

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """A failure inside ends all processes, and is told once."""
        yield


ALONE = Processes()
