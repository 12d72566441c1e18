"""The contract of an engine: it starts a job, looks after it, stops it, and collects what it left.

A job is a request, which can be sent to any machine as JSON; `attnlab.studies.worker` does it and leaves a
result.json in its folder.
"""

from __future__ import annotations

import math
import platform
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from attnlab.config.imports import CodeRecord
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.data.workers import cores
from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.result import RunResult, RunState, read_result, write_result
from attnlab.training.interrupt import Interrupt

LOG = "worker.log"
LOOK = 0.1  # seconds between two looks at the jobs

Status = Literal["waiting", "running", "finished", "failed", "stopped"]


class Purpose(StrEnum):
    """What a job is for."""

    MEASURE = "measure"  # train, and all that the study wants to know of the model
    TRAIN = "train"
    TIME = "time"  # a few steps, for the plan; the run is not kept


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """All that a worker must know, wherever it is."""

    folder: str
    config: Mapping[str, Any]
    """As run.json holds it."""
    purpose: Purpose = Purpose.MEASURE
    allow: tuple[str, ...] = ()
    """Checks that may fail."""
    probes: tuple[str, ...] = ()
    sentence: str = ""
    """Whose attention is drawn."""
    extras: str = ""
    imports: tuple[CodeRecord, ...] = ()
    """Code of a person's own, as a run records it."""
    threads: int = 1
    """Which a run's last bits depend on."""
    first: str = ""
    """The folder of the same arm's run of the first seed, whose checks before training need not be made again
    where they can be read by then."""

    @property
    def device(self) -> str:
        return str(self.config["training"]["device"])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> JobRequest:
        lists = {name: tuple(record[name]) for name in ("allow", "probes", "imports")}
        return cls(**{**record, **lists, "purpose": Purpose(record["purpose"])})


@dataclass
class Job:
    """One run that is wanted, and how far it has come."""

    arm: str
    seed: int
    request: JobRequest
    status: Status = "waiting"
    done: bool = False  # before: it need not be started
    asked: bool = False  # to stop
    queued: bool = False  # started, and its engine has no room for it yet

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def shown(self) -> Status:
        """Its status as a person sees it: what its engine has no room for waits."""
        return "waiting" if self.queued else self.status

    @property
    def folder(self) -> Path:
        return Path(self.request.folder)

    @property
    def result(self) -> RunResult | None:
        """What its worker left; nothing where it has not come to an end."""
        return read_result(self.folder)

    @property
    def outcome(self) -> str:
        """How its worker ended, "finished" or "failed"; empty where it has not."""
        return self.result.status if self.result is not None else ""


@dataclass(frozen=True)
class Needs:
    """What one run takes while it runs."""

    cpus: int = 1
    gpus: int = 0


@dataclass(frozen=True)
class NodeRecord:
    """A machine that runs jobs."""

    name: str
    cpus: int
    gpus: int = 0

    def room(self, needs: Needs) -> int:
        """How many runs it has room for at once."""
        by_gpus = self.gpus // needs.gpus if needs.gpus else math.inf
        return int(min(self.cpus // needs.cpus, by_gpus))


@dataclass(frozen=True)
class ClusterRecord:
    """The machines of an engine, and how much of them nobody uses at the moment."""

    nodes: tuple[NodeRecord, ...]
    free_cpus: int
    free_gpus: int = 0

    @property
    def cpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    def room(self, needs: Needs) -> int:
        """How many runs go at once where no others are."""
        return sum(node.room(needs) for node in self.nodes)

    def needs(self, device: str, threads: int) -> Needs:
        """What a run takes here: a core a thread, and a GPU where its training.device asks for one, or asks
        for the best there is and there are any."""
        return Needs(threads, int(device == "cuda" or (device == "best" and self.gpus > 0)))


class Engine(ABC):
    """Where jobs are executed. It is entered before the first job, and left after the last."""

    queues: ClassVar[bool] = False
    """Whether it takes any number of jobs and starts them as there is room."""
    place: str = "this machine"
    """What it is called in a sentence."""
    scratch: ClassVar[str | None] = None
    """Where files stand that are not kept; the system's own place for them by default."""

    def __enter__(self) -> Self:
        """Reach the machines; a ConfigError says why they cannot be."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leave nothing running there."""
        return

    def cluster(self) -> ClusterRecord:
        """What there is to run on: this machine, unless an engine has others."""
        return ClusterRecord((NodeRecord(platform.node(), cores()),), cores())

    def refuse(self, devices: Collection[str], threads: int) -> None:
        """Stop before any work where no machine of a cluster has room for a run on one of these devices."""
        if self.queues:
            cluster = self.cluster()
            for device in devices:
                refuse_unplaceable(cluster, cluster.needs(device, threads), self.place)

    @abstractmethod
    def start(self, job: Job) -> None:
        """Begin a job: `attnlab.studies.worker` with its request."""

    @abstractmethod
    def look(self, job: Job) -> int | None:
        """The exit code of a job that was started, negative where a signal ended it; None while it runs."""

    def queued(self, job: Job) -> bool:
        """Whether a job that was started still waits for room."""
        return False

    @abstractmethod
    def stop(self, job: Job, *, at_once: bool = False) -> None:
        """Ask a running job to save and end; with `at_once`, end it."""

    def collect(self, job: Job) -> RunResult | None:
        """What an ended job left; an engine elsewhere first brings it into the job's folder."""
        return job.result


View = Callable[[Sequence[Job]], None]
"""Is shown the work again and again while it runs."""


class Queue:
    """Jobs for an engine, at most so many at once, with `threads` each: none takes another down."""

    def __init__(self, engine: Engine, *, jobs: int, threads: int, view: View, interrupt: Interrupt):
        self.engine, self.jobs, self.threads = engine, jobs, threads
        self.view, self.interrupt = view, interrupt

    def run(self, work: Sequence[Job]) -> None:
        """Until all have ended, or a person asked to stop and the running ones have saved."""
        for job in work:
            if job.done:
                job.status = "finished"
        try:
            while any(job.status == "running" for job in work) or self._start(work):
                self.view(work)
                time.sleep(LOOK)
                for job in work:
                    self._look(job)
                if self.interrupt.asked:
                    self._stop(work)
                else:
                    self._start(work)
            self.view(work)
        finally:
            for job in work:
                if job.status == "running":
                    self.engine.stop(job, at_once=True)

    def _start(self, work: Sequence[Job]) -> bool:
        """Start what waits while there is room; gives whether anything runs now."""
        running = sum(job.status == "running" for job in work)
        waiting = [job for job in work if job.status == "waiting"]
        if not self.interrupt.asked:
            for job in waiting[: self.jobs - running]:
                job.request = replace(job.request, threads=self.threads)
                job.status = "running"
                self.engine.start(job)
                job.queued = self.engine.queued(job)
        return any(job.status == "running" for job in work)

    def _look(self, job: Job) -> None:
        """What became of a job that has ended."""
        code = self.engine.look(job) if job.status == "running" else None
        job.queued = code is None and job.status == "running" and self.engine.queued(job)
        if code is None:
            return
        result = self.engine.collect(job)
        if result is not None:
            job.status = "finished" if result.status == RunState.FINISHED else "failed"
        elif self.interrupt.asked:
            job.status = "stopped"
        else:
            job.status = "failed"
            write_result(job.folder, RunResult(status=RunState.FAILED, reason=died(code, job.folder)))

    def _stop(self, work: Sequence[Job]) -> None:
        """Ask every running job to save and end; those that have not begun stay as they are."""
        for job in work:
            if job.status == "running" and not job.asked:
                self.engine.stop(job)
                job.asked = True


def amounts(of: Needs | NodeRecord) -> str:
    gpus = f" and {count_of(of.gpus, 'GPU')}" if of.gpus else ""
    return count_of(of.cpus, "CPU") + gpus


def refuse_unplaceable(cluster: ClusterRecord, needs: Needs, where: str) -> None:
    """Stop where no machine of a cluster has room for a run."""
    if cluster.room(needs):
        return
    there = ", ".join(f"{node.name}: {amounts(node)}" for node in cluster.nodes)
    wanted = amounts(needs)
    fix = 'set training.device to "cpu"' if needs.gpus else "use --on local"
    raise ConfigError(
        f"Each run needs {wanted} on one node, and no node of {where} has them ({there or 'it has none'}). "
        f"Add such a node, or {fix}."
    )


def died(code: int, folder: Path) -> Reason:
    """Why a worker ended without a word."""
    if code < 0:
        return Reason(ReasonKind.KILLED, {"signal": signal.Signals(-code).name})
    if code > 128:
        return Reason(ReasonKind.ASKED_TO_STOP)
    return Reason(ReasonKind.EXIT_CODE, {"code": code, "log": str(folder / LOG)})
