"""The processes that train one model together: who they are, how they agree, and how one learns that another
is gone.

Numbers go through torch.distributed. Everything else goes through the store that the launcher (torchrun, or
`--processes`) holds: who failed first and why, who is alive, and waiting for work that one process does alone
and that may take longer than any collective waits.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from attnlab.config.values import ConfigError
from attnlab.runs.faults import EndedElsewhereError, RunError

T = TypeVar("T")
BEAT = 0.5
"""Seconds between two signs of life."""
POLL = 0.02, 0.25
"""Seconds between two looks at the store, at first and after a while."""
UNHEARD = 10.0
"""Seconds beyond the timeout after which a process that reaches nobody ends: the others have named it."""
ENDING = 2.0
"""Seconds that a process waits for its own threads when it ends."""
LAUNCHED = "ATTNLAB_LAUNCHED"
"""Set where `--processes` started this process: that launcher says what ended a run."""
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
PREFIX, REASON = "attnlab", "reason"
"""Where in the store a process says why all of them end."""


class LostError(RunError):
    """Other processes ended, or do not answer."""

    def __init__(self, message: str, ranks: Sequence[int] = ()):
        super().__init__(message)
        self.ranks = ranks


class Processes:
    """One process alone: every question has its plain answer. `JoinedProcesses` are several."""

    rank = local_rank = 0
    world = local_world = 1
    hosts: tuple[str, ...] = ()
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


class JoinedProcesses(Processes):
    """Several processes with a store, each with its rank."""

    def __init__(self, store: Any, *, rank: int, world: int, local_rank: int, local_world: int):
        self.rank, self.world, self.local_rank, self.local_world = rank, world, local_rank, local_world
        self.host, self.meetings = socket.gethostname(), 0
        self._whole, self.store = store, _below(PREFIX, store)
        self.store.set(f"who/{rank}", json.dumps({"host": self.host, "pid": os.getpid()}))
        self._ended, self._beaten = threading.Event(), time.monotonic()
        self._error: Exception | None = None
        self._begin_to_beat()

    # ------------------------------------------------------------ numbers
    def connect(self, device: torch.device, timeout: float) -> None:
        self.timeout = timeout
        self._whole.set_timeout(timedelta(seconds=max(timeout, 4 * BEAT)))
        if device.type == "mps":
            raise ConfigError('training.device "mps" has one process; use "cpu", or leave out --processes.')
        if dist.is_initialized():  # by an earlier run of this script, or by the script itself
            self.backend = self.backend or dist.get_backend()
        else:
            self._begin_group(device)
        self.hosts = tuple(dict.fromkeys(self.gather(self.host)))

    def _begin_group(self, device: torch.device) -> None:
        self.backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        own: dict[str, Any] = {"device_id": device} if device.type == "cuda" else {}
        dist.init_process_group(
            self.backend,
            store=_below("group", self._whole),
            rank=self.rank,
            world_size=self.world,
            timeout=timedelta(seconds=self.timeout),
            **own,
        )

    def gather(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def gather_to_first(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.world if self.first else []
        dist.gather_object(value, values if self.first else None, dst=0)
        return values

    def sum(self, number: int) -> int:
        return self._reduced(number, dist.ReduceOp.SUM)

    def most(self, number: int) -> int:
        return self._reduced(number, dist.ReduceOp.MAX)

    def _reduced(self, number: int, how: Any) -> int:
        value = torch.tensor([number], dtype=torch.int64)
        dist.all_reduce(value, how)
        return int(value)

    def of_first(self, value: T) -> T:
        values: list[Any] = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    # ------------------------------------------------------------ waiting
    def meet(self) -> None:
        self.meetings += 1
        key = f"met/{self.meetings}"
        self.store.add(key, 1)
        self._wait(lambda: self.store.add(key, 0) >= self.world)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        self.meetings += 1
        key = f"turn/{self.meetings}/{self.host}"
        if self.local_rank:
            self._wait(lambda: self.store.check([key]))
        yield
        if not self.local_rank:
            self.store.set(key, "")

    def _wait(self, arrived: Callable[[], bool]) -> None:
        """Until something is so. Another process that fails ends it, as does one that is silent too long."""
        pause, most = POLL
        beats, heard = self._beats(), time.monotonic()
        while not arrived():
            self._refuse_ended()
            time.sleep(pause)
            pause = min(most, 1.5 * pause)
            if time.monotonic() - heard > self.timeout:
                now = self._beats()
                self._refuse_silent([rank for rank in range(self.world) if now[rank] == beats[rank]])
                beats, heard = now, time.monotonic()

    # ------------------------------------------------------------ signs of life
    def _begin_to_beat(self) -> None:
        own = self.store.clone()  # a connection of its own: the other may be waiting
        key = f"beat/{self.rank}"

        def beat() -> None:
            while not self._ended.wait(BEAT):
                try:
                    own.add(key, 1)
                    self._beaten = time.monotonic()
                except RuntimeError:  # the launcher is gone: save, and end
                    if not self._ended.is_set():
                        os.kill(os.getpid(), signal.SIGTERM)
                    return

        def watch() -> None:
            while not self._ended.wait(BEAT):
                if time.monotonic() - self._beaten > self.timeout + UNHEARD:
                    self._cut_off()

        self.store.add(key, 1)
        self._threads = [
            threading.Thread(target=work, daemon=True, name=f"attnlab-{work.__name__}")
            for work in (beat, watch)
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self._end_beating)

    def _end_beating(self) -> None:
        """Before Python ends: a thread that talks to the store then would abort the process."""
        self._ended.set()
        for thread in self._threads:
            thread.join(ENDING)

    def _cut_off(self) -> None:
        """End this process where the launcher's machine does not answer: whatever waits for it hangs."""
        if not self.local_rank:
            sys.stderr.write(
                f"Error: The machine of the launcher does not answer to {self.host} "
                f"(training.process_timeout is {self.timeout:g} seconds).\n"
            )
            sys.stderr.flush()
        os._exit(1)

    def _beats(self) -> list[int]:
        return [self.store.add(f"beat/{rank}", 0) for rank in range(self.world)]

    def _refuse_silent(self, ranks: Sequence[int]) -> None:
        others = [rank for rank in ranks if rank != self.rank]
        if others:
            raise LostError(self._silent(others), others)

    def _silent(self, ranks: Sequence[int]) -> str:
        """Who does not answer."""
        named = []
        for rank in ranks:
            who = json.loads(self.store.get(f"who/{rank}"))
            named.append(f"{rank} (number {who['pid']} on {who['host']})")
        several = len(named) > 1
        return (
            f"Process{'es' if several else ''} {' and '.join(named)} ended, or {'do' if several else 'does'} "
            f"not answer (training.process_timeout is {self.timeout:g} seconds)."
        )

    # ------------------------------------------------------------ failing
    def claims(self, message: str) -> bool:
        return self.store.add(f"said/{message}", 1) == 1

    def _refuse_ended(self) -> None:
        if self.store.check([REASON]):
            reason = json.loads(self.store.get(REASON))
            if reason["rank"] != self.rank:
                raise EndedElsewhereError(reason["message"])

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except EndedElsewhereError:
            raise
        except Exception as error:
            if error is not self._error:
                self._error = error
                with suppress(dist.DistError, ConnectionError):
                    self._fail(error)
            raise
        except KeyboardInterrupt:
            with suppress(RuntimeError):
                self._publish("interrupted", "Stopped.", 130)
            raise

    def _fail(self, error: Exception) -> None:
        """Say why all processes end, unless another has done so: then this failure only follows from it."""
        silent: Sequence[int] = ()
        if follows := is_lost(error):
            error, silent = self._loss(error)
        kind = "lost" if follows else "fault" if isinstance(error, (RunError, ValueError)) else "error"
        code = 2 if isinstance(error, ValueError) else 1
        message = str(error) or type(error).__name__
        if kind == "error":
            message = f"{type(error).__name__}: {message}"
        if not self._publish(kind, message, code):
            raise EndedElsewhereError(self._reason()["message"]) from error
        self._end(silent)
        if kind == "error":
            return
        if os.environ.get(LAUNCHED):  # it says so
            raise EndedElsewhereError(message) from error
        if follows:
            self._error = error
            raise error

    def _publish(self, kind: str, message: str, code: int) -> bool:
        """Whether this process is the first to end."""
        if self.store.add("ending", 1) > 1:
            return False
        reason = {"rank": self.rank, "kind": kind, "message": message, "code": code}
        self.store.set(REASON, json.dumps(reason))
        if file := os.environ.get("TORCHELASTIC_ERROR_FILE"):  # torchrun shows what it holds
            with suppress(OSError):
                told = {"message": message, "extraInfo": {"timestamp": str(int(time.time()))}}
                Path(file).write_text(json.dumps({"message": told}))
        return True

    def _reason(self) -> dict[str, Any]:
        return dict(json.loads(self.store.get(REASON)))

    def _loss(self, error: Exception) -> tuple[LostError, Sequence[int]]:
        """Who is gone, where an exchange of numbers failed."""
        if isinstance(error, LostError):
            return error, error.ranks
        before, until = self._beats(), time.monotonic() + 4 * BEAT
        while time.monotonic() < until:
            self._refuse_ended()
            time.sleep(POLL[1])
        now = self._beats()
        silent = [rank for rank in range(self.world) if now[rank] == before[rank] and rank != self.rank]
        if silent:
            return LostError(self._silent(silent), silent), silent
        reason = " ".join(str(error).split())[:200]
        return LostError(f"The processes lost each other, though all of them are alive: {reason}"), ()

    def _end(self, ranks: Sequence[int]) -> None:
        """End processes of this machine that do not answer: one that was stopped would stay."""
        for rank in ranks:
            who = json.loads(self.store.get(f"who/{rank}"))
            if who["host"] == self.host:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(who["pid"], signal.SIGKILL)


def is_lost(error: BaseException) -> bool:
    """Whether an error is of the connection between processes, and not of this one's own work."""
    if isinstance(error, (LostError, dist.DistError, ConnectionError)):
        return True
    return type(error) is RuntimeError and bool(re.search(r"gloo|nccl|connection|socket", str(error), re.I))


def attempt_key(restarts: int | str) -> str:
    """Below which an attempt has its keys, in a store that may outlive the one before."""
    return f"attempt-{restarts}"


def _below(name: str, store: Any) -> Any:
    """A store whose keys are apart from those of others."""
    return PrefixStore(name, store)


_current: Processes = ALONE


def current() -> Processes:
    """The processes of this run, by the launcher's environment; the store is joined when first asked."""
    if _current is ALONE and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        store, rank, world = next(rendezvous("env://"))
        join(
            _below(attempt_key(os.environ.get(RESTARTS, "0")), store),
            rank=rank,
            world=world,
            local_rank=int(os.environ.get("LOCAL_RANK", rank)),
            local_world=int(os.environ.get("LOCAL_WORLD_SIZE", world)),
        )
    return _current


def join(store: Any, *, rank: int, world: int, local_rank: int, local_world: int) -> JoinedProcesses:
    """Take part under this rank."""
    global _current
    joined = JoinedProcesses(store, rank=rank, world=world, local_rank=local_rank, local_world=local_world)
    _current = joined
    return joined


def restarted() -> bool:
    """Whether a launcher started the processes again after they had ended."""
    return int(os.environ.get(RESTARTS, "0")) > 0
