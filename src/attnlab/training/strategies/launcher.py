"""`--processes`: starts the processes of a run on this machine by the library of torchrun, and says once what
ended them."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Literal

from torch._C._distributed_c10d import TCPStore
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
from torch.distributed.elastic.multiprocessing.api import SignalException, Std, SubprocessContext

from attnlab.config.values import ConfigError
from attnlab.runs.faults import RunError
from attnlab.training.strategies.end_reason import EndReason
from attnlab.training.strategies.launch_environment import LAUNCHED, RESTARTS, attempt_store, run_store

HOST = "127.0.0.1"
POLL = 0.05
GRACE, ENDING = 5.0, 10.0
"""Seconds in which the others may end by themselves after one did, and in which they must when told to."""


Shown = Literal["all", "progress", "nothing"]
HIDDEN: dict[Shown, Std] = {"all": Std.NONE, "progress": Std.OUT, "nothing": Std.ALL}


@dataclass(frozen=True)
class End:
    """How the processes ended: an exit code, a sentence where there is something to say, and whether starting
    them again could help."""

    code: int = 0
    message: str = ""
    again: bool = False


def launch(
    arguments: Sequence[str],
    *,
    processes: int,
    restarts: int = 0,
    tell: Callable[[str], None],
    shown: Shown = "all",
) -> int:
    """Run `attnlab ARGUMENTS` in so many processes that train one model; gives the exit code of the first.

    Processes that were killed, hung or failed by accident are started again, `restarts` times at the most:
    they resume from the last checkpoint. An error says what ended them. `shown` is what they print.
    """
    for attempt in range(restarts + 1):
        end = _attempt(arguments, processes, attempt, HIDDEN[shown])
        if not end.again or attempt == restarts:
            break
        tell(f"{end.message} Restarting from the last checkpoint ({attempt + 1} of {restarts} restarts).")
    if end.message:
        raise (ConfigError if end.code == 2 else RunError)(end.message)
    return end.code


def _attempt(arguments: Sequence[str], processes: int, attempt: int, hidden: Std) -> End:
    store: Any = TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    said = run_store(attempt_store(store, attempt))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # it is told here
    command = ("-m", "attnlab", *arguments)
    with TemporaryDirectory() as logs, _signals_restored():
        context = start_processes(
            "attnlab",
            sys.executable,
            args=dict.fromkeys(range(processes), command),
            envs={rank: environment_of(rank, processes, store.port, attempt) for rank in range(processes)},
            logs_specs=DefaultLogsSpecs(log_dir=logs, redirects=hidden),
        )
        assert isinstance(context, SubprocessContext)
        try:
            codes = _first_codes(context)
            reason = EndReason.said(said)
            if any(codes.values()):
                _let_end(context)
        finally:
            context.close(signal.SIGTERM, timeout=int(ENDING))
    return end_of(codes, reason or EndReason.said(said), seen=reason is not None)


def environment_of(rank: int, world: int, port: int, attempt: int) -> dict[str, str]:
    """What torchrun tells its processes."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    numbers |= {"MASTER_PORT": port, RESTARTS: attempt, LAUNCHED: world}
    named = {name: str(number) for name, number in numbers.items()}
    return named | {"MASTER_ADDR": HOST, "TORCHELASTIC_USE_AGENT_STORE": "True"}


def _first_codes(context: SubprocessContext) -> dict[int, int]:
    """The exit codes by rank when the first process failed, or all have ended. Signals are passed on."""
    while True:
        try:
            codes = _codes(context)
            if any(codes.values()) or len(codes) == context.nprocs:
                return codes
            time.sleep(POLL)
        except SignalException as heard:
            for rank, pid in context.pids().items():
                if rank not in _codes(context):
                    with suppress(ProcessLookupError):
                        os.kill(pid, heard.sigval)


def _codes(context: SubprocessContext) -> dict[int, int]:
    handlers = context.subprocess_handlers.items()
    codes = {rank: handler.proc.poll() for rank, handler in handlers}
    return {rank: code for rank, code in codes.items() if code is not None}


def _let_end(context: SubprocessContext) -> None:
    until = time.monotonic() + GRACE
    with suppress(SignalException):
        while len(_codes(context)) < context.nprocs and time.monotonic() < until:
            time.sleep(POLL)


def end_of(codes: Mapping[int, int], reason: EndReason | None, *, seen: bool) -> End:
    """How processes ended, by the codes of the first that did and by what one said: before (`seen`) or after
    that."""
    if not any(codes.values()):
        return End()
    rank, code = next((rank, code) for rank, code in codes.items() if code)
    if reason is not None and reason.kind == "fault":
        return End(reason.code, reason.message)
    if reason is not None and reason.kind == "error":
        return End(reason.code, f"Process {reason.rank} failed: {reason.message}", again=True)
    lost = reason if reason is not None and reason.kind == "lost" else None
    if code < 0 and not (lost and seen):
        why = " (systems do so when memory runs out)" if -code == signal.SIGKILL else ""
        return End(1, f"Process {rank} was ended by {signal.Signals(-code).name}{why}.", again=True)
    return End(code) if lost is None else End(1, lost.message, again=True)


@contextmanager
def _signals_restored() -> Iterator[None]:
    """torch's handlers pass signals on; afterwards they are as they were."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
