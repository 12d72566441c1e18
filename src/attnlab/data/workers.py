"""Work in several processes at once, its results in order: Python itself uses one core."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")
AHEAD = 2
"""Pieces of work for each process that are read before their results are wanted: memory stays flat."""

_work: Callable[[Any], Any] | None = None
"""What a process that was forked does: it has it without its being sent."""


def in_order(
    work: Callable[[Given], Made],
    pieces: Iterable[Given],
    *,
    processes: int | None = None,
    ahead: int = AHEAD,
) -> Iterator[Made]:
    """`work` of each piece, in the order of the pieces. With one core, or where processes cannot be forked,
    it is done here; what comes out is the same. `ahead`: see AHEAD."""
    count = cores() if processes is None else processes
    if count < 2 or not can_fork():
        yield from map(work, pieces)
        return
    with forked(work, count) as submit:
        waiting: deque[Future[Made]] = deque()
        for piece in pieces:
            waiting.append(submit(piece))
            if len(waiting) > ahead * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def forked(work: Callable[[Given], Made], count: int) -> Iterator[Callable[[Given], Future[Made]]]:
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(os.getpid(), work))
    with without_threads():
        try:
            yield partial(_submitted, pool)
        except BrokenProcessPool:
            raise MemoryError(
                "a process was ended from outside, as systems do when there is none left"
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, piece: Any) -> Future[Any]:
    """A piece in the hands of the processes. The first one forks them: until they are told not to answer a
    person's interrupt, it waits."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_do, piece)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_threads() -> Iterator[None]:
    """The tokenizers library's own threads do not survive a fork: it must not begin any."""
    name, before = "TOKENIZERS_PARALLELISM", os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ[name] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _begin(parent: int, work: Callable[[Any], Any]) -> None:
    """A process whose parent was killed ends, too; a person's Ctrl-C is the parent's to answer."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _do(piece: Any) -> Any:
    assert _work is not None
    return _work(piece)


def can_fork() -> bool:
    """Not a process of several that train one model: the threads that talk to the others do not survive a
    fork, and what waits for them waits for ever; and the other cores are theirs."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return False
    return "fork" in multiprocessing.get_all_start_methods() and os.uname().sysname == "Linux"


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
