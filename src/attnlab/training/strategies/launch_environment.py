"""What a launcher, torchrun or `--processes`, and the processes that it starts agree upon."""

from __future__ import annotations

from typing import Any

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
LAUNCHED = "ATTNLAB_LAUNCHED"
"""How many processes `--processes` started, in each of them: that launcher says what ended a run."""


def attempt_store(store: Any, restarts: int) -> Any:
    """The keys of one attempt, in a store that may outlive the one before."""
    return _below(f"attempt-{restarts}", store)


def run_store(store: Any) -> Any:
    """Where in an attempt's store the processes agree about anything but numbers."""
    return _below("attnlab", store)


def _below(name: str, store: Any) -> Any:
    from torch._C._distributed_c10d import PrefixStore  # the command line reads the names without torch

    return PrefixStore(name, store)
