"""How a process learns that another is gone: each counts in the store twice a second while it lives."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attnlab.training.strategies.end_reason import LostError

BEAT = 0.5
"""Seconds between two signs of life."""
UNHEARD = 10.0
"""Seconds beyond the timeout after which a process that reaches nobody ends: the others have named it."""
ENDING = 2.0
"""Seconds that a process waits for its own threads when it ends."""


class SignsOfLife:
    """Those of this process, given by a thread, and those of the others. One that does not answer for
    `timeout` seconds is lost."""

    def __init__(self, store: Any, *, rank: int, world: int, local_rank: int, timeout: float):
        self.store, self.rank, self.world, self.timeout = store, rank, world, timeout
        self.host, self.first_here = socket.gethostname(), not local_rank
        self.store.set(f"who/{rank}", json.dumps({"host": self.host, "pid": os.getpid()}))
        self._own_store = store.clone()  # a connection of its own: the other may be waiting
        self._ended, self._beaten = threading.Event(), time.monotonic()
        self.store.add(f"beat/{rank}", 1)
        self._threads = [
            threading.Thread(target=work, daemon=True, name=f"attnlab-{name}")
            for name, work in {"beat": self._beat, "watch": self._watch}.items()
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self._end)

    # ------------------------------------------------------------ of this process
    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            try:
                self._own_store.add(f"beat/{self.rank}", 1)
                self._beaten = time.monotonic()
            except RuntimeError:  # the launcher is gone: save, and end
                if not self._ended.is_set():
                    os.kill(os.getpid(), signal.SIGTERM)
                return

    def _watch(self) -> None:
        while not self._ended.wait(BEAT):
            if time.monotonic() - self._beaten > self.timeout + UNHEARD:
                self._cut_off()

    def _cut_off(self) -> None:
        """End this process where the launcher's machine does not answer: whatever waits for it hangs."""
        if self.first_here:
            sys.stderr.write(
                f"Error: The machine of the launcher does not answer to {self.host} "
                f"(training.process_timeout is {self.timeout:g} seconds).\n"
            )
            sys.stderr.flush()
        os._exit(1)

    def _end(self) -> None:
        """Before Python ends: a thread that talks to the store then would abort the process."""
        self._ended.set()
        for thread in self._threads:
            thread.join(ENDING)

    # ------------------------------------------------------------ of the others
    def counts(self) -> list[int]:
        """How often each process has counted, by rank."""
        return [self.store.add(f"beat/{rank}", 0) for rank in range(self.world)]

    def silent_since(self, counts: Sequence[int]) -> list[int]:
        """The other processes that have not counted since."""
        now = self.counts()
        return [rank for rank in range(self.world) if now[rank] == counts[rank] and rank != self.rank]

    def lost(self, ranks: Sequence[int]) -> LostError:
        """Who does not answer."""
        named = [f"{rank} (number {who['pid']} on {who['host']})" for rank, who in self._who(ranks)]
        several = len(named) > 1
        return LostError(
            f"Process{'es' if several else ''} {' and '.join(named)} ended, or {'do' if several else 'does'} "
            f"not answer (training.process_timeout is {self.timeout:g} seconds).",
            ranks,
        )

    def kill(self, ranks: Sequence[int]) -> None:
        """End those of this machine that do not answer: one that was stopped would stay."""
        for _, who in self._who(ranks):
            if who["host"] == self.host:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(who["pid"], signal.SIGKILL)

    def _who(self, ranks: Sequence[int]) -> list[tuple[int, dict[str, Any]]]:
        return [(rank, json.loads(self.store.get(f"who/{rank}"))) for rank in ranks]
