"""Processes that train one model together, forked from the test's own: they start in no time."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist

from attnlab.training.strategies import processes

LATE = 90
"""Seconds after which a process that is still there is ended, and its result is None."""


def in_processes(world: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work` gives in each of so many processes, by rank; an error of one is its result."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    fork = multiprocessing.get_context("fork")
    with TemporaryDirectory() as folder:
        files = [Path(folder) / str(rank) for rank in range(world)]
        made = [
            fork.Process(target=_one, args=(rank, world, store.port, work, given, files[rank]))
            for rank in range(world)
        ]
        for process in made:
            process.start()
        for process in made:
            process.join(LATE)
            process.kill()
        return [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]


def _one(rank: int, world: int, port: int, work: Callable[..., Any], given: Any, file: Path) -> None:
    torch.set_num_threads(1)
    try:
        if world > 1:
            store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
            processes.join(store, rank=rank, world=world, local_rank=rank, local_world=world)
        result = work(*given)
    except BaseException as error:
        if world == 1 or not isinstance(error, RuntimeError):
            traceback.print_exc()
        result = error
    file.write_bytes(pickle.dumps(result))
    os._exit(0)
