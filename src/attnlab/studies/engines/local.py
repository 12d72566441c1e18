"""Runs in processes of their own on this machine: none takes another down, and none outlives us."""

from __future__ import annotations

from attnlab.studies.engines.engine import Engine, Job
from attnlab.studies.engines.worker_process import WorkerProcess


class Local(Engine):
    """Local: each run in a process of its own on this machine."""

    def __init__(self) -> None:
        self.workers: dict[str, WorkerProcess] = {}

    def start(self, job: Job) -> None:
        self.workers[job.request.folder] = WorkerProcess(job.request)

    def look(self, job: Job) -> int | None:
        return self.workers[job.request.folder].code

    def stop(self, job: Job, *, at_once: bool = False) -> None:
        if worker := self.workers.get(job.request.folder):
            worker.stop(at_once=at_once)
