"""Processes that train one model together, forked from a server that has everything loaded: they start in no
time, and no thread of an earlier test, nor a lock that it had, comes along."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import torch.distributed as dist

from attnlab.training.strategies import own_processes

LATE = 90
"""Seconds after which processes that are still there are ended, and say where they were."""
LOADED = [
    "torch._dynamo",  # torch imports it when it wraps a model, which takes longer than a small training
    "tests.interop.parallel_loops",
    "tests.session.test_process_checks",
    "tests.training.test_processes",
]

Patch = Callable[[pytest.MonkeyPatch], None]
PATCHES: list[Patch] = []
"""What each process patches before its work: what a test patches in its own process is not there."""


@contextmanager
def patched(*changes: Patch) -> Iterator[None]:
    """Processes that start meanwhile are patched like this, too."""
    PATCHES.extend(changes)
    yield
    del PATCHES[-len(changes) :]


def in_processes(world: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work` gives in each of so many processes, by rank; an error of one is its result."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(LOADED)
    with TemporaryDirectory() as name:
        folder = Path(name)
        made = [
            server.Process(target=_one, args=(rank, world, store.port, work, given, tuple(PATCHES), folder))
            for rank in range(world)
        ]
        for process in made:
            process.start()
        until = time.monotonic() + LATE
        for process in made:
            process.join(max(0.0, until - time.monotonic()))
        late = [rank for rank, process in enumerate(made) if process.is_alive()]
        for rank in late:
            os.kill(made[rank].pid, signal.SIGUSR1)
            made[rank].join(1)
            made[rank].kill()
        where = "\n".join((folder / f"{rank}.stacks").read_text() for rank in late)
        assert not late, f"processes {late} of {world} did not end in {LATE} seconds:\n{where}"
        return [pickle.loads((folder / f"{rank}.result").read_bytes()) for rank in range(world)]


def _one(
    rank: int,
    world: int,
    port: int,
    work: Callable[..., Any],
    given: Any,
    patches: Sequence[Patch],
    folder: Path,
) -> None:
    stacks = open(folder / f"{rank}.stacks", "w")  # noqa: SIM115  as long as the process
    faulthandler.register(signal.SIGUSR1, file=stacks)
    torch.set_num_threads(1)
    patch = pytest.MonkeyPatch()
    try:
        for change in patches:
            change(patch)
        if world > 1:
            store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
            own_processes.join(store, rank=rank, world=world, local_rank=rank, local_world=world)
        result = work(*given)
    except BaseException as error:
        if world == 1 or not isinstance(error, RuntimeError):
            traceback.print_exc()
        result = error
    (folder / f"{rank}.result").write_bytes(pickle.dumps(result))
    os._exit(0)
