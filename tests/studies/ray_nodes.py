"""Ray clusters of several nodes on this machine, and keepers on nodes that share no files with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from attnlab.runs.checkpoints import Checkpoints
from attnlab.studies.engines.engine import Job
from attnlab.studies.engines.keeper import Greeting, Keeper

STORE = 80 << 20


@contextmanager
def cluster(*cpus: int) -> Iterator[Cluster]:
    """Nodes with so many CPUs each, the first of them the head; nothing is reported, and no file stays."""
    head = {"num_cpus": cpus[0], "object_store_memory": STORE, "include_dashboard": False}
    with TemporaryDirectory(prefix="ray-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)  # a short one: names of sockets may not be long
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            for count in cpus[1:]:
                add_node(made, count)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


def add_node(made: Cluster, cpus: int = 1) -> Any:
    node = made.add_node(num_cpus=cpus, object_store_memory=STORE)
    made.wait_for_nodes()
    return node


class ApartKeeper(Keeper):
    """A keeper on a node that does not see the study's folder; of an arm called "linear" it does."""

    def greet(self, mark: tuple[str, str], files: Sequence[tuple[str, int]]) -> Greeting:
        place, word = mark
        apart = "" if "/linear/" in place else "-of-another-disk"
        return super().greet((place + apart, word), files)


class Watcher:
    """A view that does something at a moment of a study: each action once, when its condition holds."""

    def __init__(self, *actions: tuple[Callable[[Sequence[Job]], bool], Callable[[], object]]):
        self.actions = list(actions)

    def __call__(self, work: Sequence[Job]) -> None:
        if self.actions and self.actions[0][0](work):
            _, action = self.actions.pop(0)
            action()


def stepped(*steps: int) -> Callable[[Sequence[Job]], bool]:
    """Whether every job that runs has a checkpoint of so many steps."""
    wanted = max(steps)
    return lambda work: (
        bool(work)
        and all(not job.queued and newest(job.folder) >= wanted for job in work if job.status == "running")
        and any(job.status == "running" for job in work)
    )


def newest(folder: Path) -> int:
    return max(Checkpoints.of(folder).steps(), default=0)
