"""The processes of this run, by what the launcher wrote into the environment."""

from __future__ import annotations

import os
from typing import Any

from torch.distributed.rendezvous import rendezvous

from attnlab.training.strategies.joined_processes import JoinedProcesses
from attnlab.training.strategies.launch_environment import RESTARTS, attempt_store
from attnlab.training.strategies.processes import ALONE, Processes

_current: Processes = ALONE


def current() -> Processes:
    """The processes of this run, by the launcher's environment; the store is joined when first asked."""
    if _current is ALONE and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        store, rank, world = next(rendezvous("env://"))
        join(
            attempt_store(store, int(os.environ.get(RESTARTS, "0"))),
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
