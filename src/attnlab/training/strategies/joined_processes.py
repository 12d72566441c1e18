"""Several processes that train one model together: how they exchange, wait for each other, and end.

Numbers go through torch.distributed. Everything else goes through the store that the launcher (torchrun, or
`--processes`) holds: who failed first and why, who is alive, and waiting for work that one process does alone
and that may take longer than any collective waits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from attnlab.config.values import ConfigError
from attnlab.runs.faults import EndedElsewhereError
from attnlab.training.strategies.end_reason import EndReason, LostError, is_lost
from attnlab.training.strategies.launch_environment import LAUNCHED, run_store
from attnlab.training.strategies.processes import Processes
from attnlab.training.strategies.signs_of_life import BEAT, SignsOfLife

T = TypeVar("T")
POLL = 0.02, 0.25
"""Seconds between two looks at the store, at first and after a while."""


class JoinedProcesses(Processes):
    """Several processes with a store, each with its rank."""

    def __init__(self, store: Any, *, rank: int, world: int, local_rank: int, local_world: int):
        self.rank, self.world, self.local_rank, self.local_world = rank, world, local_rank, local_world
        self._whole, self.store, self.meetings = store, run_store(store), 0
        self.signs = SignsOfLife(
            self.store, rank=rank, world=world, local_rank=local_rank, timeout=self.timeout
        )
        self._error: Exception | None = None

    # ------------------------------------------------------------ numbers
    def connect(self, device: torch.device, timeout: float) -> None:
        self.timeout = self.signs.timeout = timeout
        self._whole.set_timeout(timedelta(seconds=max(timeout, 4 * BEAT)))
        if device.type == "mps":
            raise ConfigError('training.device "mps" has one process; use "cpu", or leave out --processes.')
        if dist.is_initialized():  # by an earlier run of this script, or by the script itself
            self.backend = self.backend or dist.get_backend()
        else:
            self._begin_group(device)
        self.hosts = tuple(dict.fromkeys(self.gather(self.signs.host)))

    def _begin_group(self, device: torch.device) -> None:
        self.backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        own: dict[str, Any] = {"device_id": device} if device.type == "cuda" else {}
        dist.init_process_group(
            self.backend,
            store=PrefixStore("group", self._whole),
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
        key = f"turn/{self.meetings}/{self.signs.host}"
        if self.local_rank:
            self._wait(lambda: self.store.check([key]))
        yield
        if not self.local_rank:
            self.store.set(key, "")

    def _wait(self, arrived: Callable[[], bool]) -> None:
        """Until something is so. Another process that fails ends it, as does one that is silent too long."""
        pause, most = POLL
        counts, heard = self.signs.counts(), time.monotonic()
        while not arrived():
            self._refuse_ended()
            time.sleep(pause)
            pause = min(most, 1.5 * pause)
            if time.monotonic() - heard > self.timeout:
                if silent := self.signs.silent_since(counts):
                    raise self.signs.lost(silent)
                counts, heard = self.signs.counts(), time.monotonic()

    # ------------------------------------------------------------ ending
    def claims(self, message: str) -> bool:
        return self.store.add(f"said/{message}", 1) == 1

    def _refuse_ended(self) -> None:
        reason = EndReason.said(self.store)
        if reason is not None and reason.rank != self.rank:
            raise EndedElsewhereError(reason.message)

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
                EndReason(self.rank, "interrupted", "Stopped.", 130).publish(self.store)
            raise

    def _fail(self, error: Exception) -> None:
        """Say why all processes end, unless another has done so: then this failure only follows from it."""
        if is_lost(error):
            self._fail_by_others(error)
        reason = EndReason.of_error(error, self.rank)
        self._publish(reason, error)
        if reason.kind == "fault" and os.environ.get(LAUNCHED):  # it says so
            raise EndedElsewhereError(reason.message) from error

    def _fail_by_others(self, error: Exception) -> NoReturn:
        """The same where an exchange failed."""
        lost = error if isinstance(error, LostError) else self._loss(error)
        reason = EndReason.of_error(lost, self.rank)
        self._publish(reason, lost)
        self.signs.kill(lost.ranks)
        if os.environ.get(LAUNCHED):
            raise EndedElsewhereError(reason.message) from lost
        self._error = lost
        raise lost

    def _publish(self, reason: EndReason, error: Exception) -> None:
        """Be the first to say a reason, or end by that of the one who was."""
        if not reason.publish(self.store):
            raise EndedElsewhereError(EndReason.read(self.store).message) from error

    def _loss(self, error: Exception) -> LostError:
        """Who is gone, where an exchange of numbers failed."""
        counts, until = self.signs.counts(), time.monotonic() + 4 * BEAT
        while time.monotonic() < until:
            self._refuse_ended()
            time.sleep(POLL[1])
        if silent := self.signs.silent_since(counts):
            return self.signs.lost(silent)
        reason = " ".join(str(error).split())[:200]
        if not self.hosts:
            return LostError(
                f"The processes cannot reach each other: {reason}. Set GLOO_SOCKET_IFNAME (with GPUs also "
                "NCCL_SOCKET_IFNAME) on each machine to the network interface that joins them: ip address "
                "lists them."
            )
        return LostError(f"The processes lost each other, though all of them are alive: {reason}")
