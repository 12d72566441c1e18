"""Runs as jobs of Slurm, by submitit: Slurm decides where and when, and starts them again.

The study's folder must be on storage that the nodes share, which Slurm asks for anyway.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from attnlab.config.values import ConfigError
from attnlab.studies.engines.engine import ClusterRecord, Engine, Job, NodeRecord
from attnlab.studies.engines.keeper import Keeper
from attnlab.studies.engines.optional_library import library
from attnlab.studies.engines.resuming import LostNodes

LOGS, STOP = "slurm", "stop"
"""Of a run: the folder of what Slurm and submitit write, and the file in it that asks its worker to save."""
MINUTES = 60
"""Of a job, unless SBATCH_TIMELIMIT says otherwise: short ones are begun sooner. A run that takes longer is
saved before its time is over, and queued again."""
PENDING = "PD"
"""What squeue calls a job that waits."""
TIMEOUTS = 1000
"""How often a run may be queued again."""
WAIT, ASK = 0.5, 15.0
"""Seconds between two looks of a job for the file STOP, and between two questions to Slurm for its jobs."""


@dataclass
class SlurmTask:
    """What a job of Slurm does: the worker, until it ends or is asked to save by the file STOP."""

    request: Mapping[str, Any]
    cwd: str

    def __call__(self) -> int:
        self.keeper = Keeper()
        stop = Path(self.cwd, self.request["folder"], LOGS, STOP)
        self.keeper.begin(self.request, self.cwd)
        while (code := self.keeper.look(WAIT).code) is None:
            if stop.exists():
                self.keeper.stop()
        return code

    def checkpoint(self) -> Any:
        """Its time is over, or others come first: save, and continue when Slurm has room again."""
        self.keeper.stop()
        while self.keeper.look(WAIT).code is None:
            pass
        return library("submitit", "slurm").helpers.DelayedSubmission(SlurmTask(self.request, self.cwd))


@dataclass
class SubmittedRun:
    """A job as Slurm has it; `missed` is how often Slurm did not know it, `state` what it last called it."""

    job: Any
    losses: LostNodes
    missed: int = 0
    begun: bool = False
    state: str = ""
    cancelled: bool = False


class Slurm(Engine):
    """Slurm: each run is a job of its own, submitted by submitit.

    Partition, account and time limit are those of sbatch: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT.
    The study's folder must be on storage that all nodes share. A run that meets its time limit is saved and
    queued again, and one whose node is lost is resumed on another.
    """

    queues = True
    place = "Slurm"
    scratch = "."
    executor = "slurm"
    """Which of submitit's."""

    def __init__(self) -> None:
        self.submitit = library("submitit", "slurm")
        self.runs: dict[str, SubmittedRun] = {}
        self.asked = 0.0

    def __enter__(self) -> Self:
        if shutil.which("sbatch") is None:
            raise ConfigError(
                "--on slurm submits jobs with sbatch, which is not on this machine's PATH; run it on a login "
                "node of the cluster, or use --on local."
            )
        return self

    def __exit__(self, *error: object) -> None:
        for run in self.runs.values():
            if not run.job.paths.result_pickle.exists():
                run.job.cancel(check=False)

    def cluster(self) -> ClusterRecord:
        return read_nodes(answer_of("sinfo", "--noheader", "--Node", "--format=%n|%C|%G|%t", *partition()))

    @cached_property
    def known_cluster(self) -> ClusterRecord:
        """As it was when it was first asked for: which machines have GPUs does not change."""
        return self.cluster()

    def start(self, job: Job) -> None:
        self.runs[job.request.folder] = SubmittedRun(self._submit(job), LostNodes.of(job))

    def _submit(self, job: Job) -> Any:
        folder = job.folder.absolute() / LOGS
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STOP).unlink(missing_ok=True)
        needs = self.known_cluster.needs(job.request.device, job.request.threads)
        executor = self.submitit.AutoExecutor(folder, cluster=self.executor, slurm_max_num_timeout=TIMEOUTS)
        gpus = {"gpus_per_node": needs.gpus} if needs.gpus else {}
        executor.update_parameters(
            name=f"attnlab {job.name}",
            timeout_min=MINUTES,
            cpus_per_task=needs.cpus,
            slurm_srun_args=[f"--cpus-per-task={needs.cpus}"],  # which srun does not take over from sbatch
            slurm_additional_parameters={"requeue": True},
            **gpus,
        )
        try:
            return executor.submit(SlurmTask(job.request.as_json(), str(Path.cwd())))
        except self.submitit.core.utils.UncompletedJobError as error:
            raise ConfigError(
                f"Slurm refused the job: {error}. Choose partition, account and time limit with "
                "SBATCH_PARTITION, SBATCH_ACCOUNT and SBATCH_TIMELIMIT."
            ) from error

    def queued(self, job: Job) -> bool:
        run = self.runs[job.request.folder]
        run.begun = run.begun or run.job.paths.stdout.exists()
        return not run.begun or run.state == PENDING  # which one that was queued again is, too

    def look(self, job: Job) -> int | None:
        run = self.runs[job.request.folder]
        if time.monotonic() - self.asked > ASK:
            self._ask()
        try:
            if run.job.paths.result_pickle.exists():
                return int(run.job.result())
        except self.submitit.core.utils.UncompletedJobError:  # it was not queued again when its time was over
            return self._lost(run, job)
        return self._lost(run, job) if run.missed > 1 or run.cancelled else None

    def _ask(self) -> None:
        """Which jobs Slurm knows; one that has just ended may be unknown before its result can be seen."""
        self.asked = time.monotonic()
        try:
            listed = answer_of("squeue", "--noheader", "--user", getpass.getuser(), "--format=%i %t")
        except ConfigError:
            return  # it does not answer at the moment
        states = dict(line.split() for line in listed.splitlines())
        for run in self.runs.values():
            run.missed = 0 if run.job.job_id in states else run.missed + 1
            run.state = states.get(run.job.job_id, "")

    def _lost(self, run: SubmittedRun, job: Job) -> int | None:
        """A job that ended without a word: its node was lost, or somebody cancelled it."""
        if job.asked:
            return 128 + signal.SIGTERM
        if run.losses.too_many(job):
            return 1
        self.runs[job.request.folder] = SubmittedRun(self._submit(job), run.losses)
        return None

    def stop(self, job: Job, *, at_once: bool = False) -> None:
        run = self.runs.get(job.request.folder)
        if run is None:
            return
        (job.folder / LOGS / STOP).touch()
        self._ask()
        if at_once or self.queued(job):
            run.job.cancel(check=False)
            run.cancelled = True


def partition() -> list[str]:
    """The partition that sbatch would take, where a person chose one."""
    name = os.environ.get("SBATCH_PARTITION", "")
    return [f"--partition={name}"] if name else []


def answer_of(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        why = str(getattr(error, "stderr", "") or error).strip()
        raise ConfigError(
            f"Slurm did not answer {words[0]}: {why}. Check that this machine belongs to a Slurm cluster."
        ) from error
    return done.stdout


DOWN = ("down", "drain", "drng", "fail", "maint", "unk", "boot", "comp", "plnd", "resv")
"""States, as sinfo shortens them, in which a node takes no job; what follows them, such as *, is left out."""


def read_nodes(text: str) -> ClusterRecord:
    """The nodes that sinfo lists, a line each: name|CPUs in use/idle/other/all|generic resources|state."""
    nodes, free = dict[str, NodeRecord](), 0
    for line in text.splitlines():
        name, cpus, resources, state = line.strip().split("|")
        if name in nodes or state.rstrip("*~#!%$@^-+").startswith(DOWN):
            continue  # one line for each partition that it is in
        _, idle, _, every = map(int, cpus.split("/"))
        nodes[name] = NodeRecord(name, every, gpus_of(resources))
        free += idle
    return ClusterRecord(tuple(nodes.values()), free, sum(node.gpus for node in nodes.values()))


def gpus_of(resources: str) -> int:
    """Of generic resources, such as gpu:a100:4(S:0-1),nvme:1 or (null), how many GPUs."""
    kinds = [entry.partition("(")[0].split(":") for entry in resources.split(",")]
    return sum(int(kind[-1]) for kind in kinds if kind[0] == "gpu" and kind[-1].isdecimal())
