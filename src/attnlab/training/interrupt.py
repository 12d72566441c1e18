"""A person's or a scheduler's wish to stop, heard between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupt:
    """Set by the first SIGINT or SIGTERM; a second one acts as it would without us."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        return self.signal != 0

    @contextmanager
    def heard(self) -> Iterator[Interrupt]:
        """Listen while the loop runs. Only a process's main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._hear)
        try:
            yield self
        finally:
            self._restore()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
