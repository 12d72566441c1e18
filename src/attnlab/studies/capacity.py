"""How many runs of a study go at once, by the machines that its engine has."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

from attnlab.studies import wording
from attnlab.studies.engines.engine import ClusterRecord, Engine
from attnlab.studies.resolved import Resolved


@dataclass(frozen=True)
class Capacity:
    """`jobs` are started at once, and as many of them as there is `room` for go, with `threads` each."""

    jobs: int
    room: int
    threads: int
    cluster: ClusterRecord
    place: str = ""
    """What the cluster is called; empty of this machine."""

    @property
    def at_once(self) -> int:
        """How many really go at once: more than there is room for take turns."""
        return max(1, min(self.jobs, self.room))

    def sentence(self, runs: int) -> str:
        """How many runs go at once, where, and with how many threads."""
        jobs = min(self.jobs, runs)
        if not self.place:
            room, cores = max(1, min(jobs, self.room)), self.cluster.cpus
            return wording.jobs_sentence(runs, jobs, threads=self.threads, room=room, cores=cores)
        return wording.cluster_sentence(
            runs,
            min(jobs, self.room),
            threads=self.threads,
            place=self.place,
            nodes=len(self.cluster.nodes),
            cpus=(self.cluster.cpus, self.cluster.free_cpus),
            gpus=(self.cluster.gpus, self.cluster.free_gpus),
        )


def capacity_of(engine: Engine, devices: Collection[str], *, jobs: int, threads: int) -> Capacity:
    """What an engine has for runs on these devices; `jobs` 0 is as many as there is room for. An engine that
    queues is given all."""
    cluster = engine.cluster()
    if not engine.queues:
        return Capacity(jobs or cluster.cpus, max(1, cluster.cpus // threads), threads, cluster)
    room = min(cluster.room(cluster.needs(device, threads)) for device in devices)
    return Capacity(jobs or sys.maxsize, max(1, room), threads, cluster, engine.place)


def devices_of(resolved: Resolved) -> set[str]:
    """The values of training.device that a study's runs have."""
    configs = [*resolved.configs.values(), *resolved.starts.values()]
    return {config.training.device for config in configs}
