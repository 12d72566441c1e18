"""Runs in processes of their own, a few at once: none takes another down, and none outlives us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.result import RunResult, RunState, read_result, write_result
from attnlab.training.interrupt import Interrupt

LOG = "worker.log"
LOOK = 0.1  # seconds between two looks at the workers

Status = Literal["waiting", "running", "finished", "failed", "stopped"]


@dataclass
class Job:
    """One run that is wanted: its folder, and what its worker is told."""

    arm: str
    seed: int
    folder: Path
    request: dict[str, Any]
    module: str = "attnlab.studies.worker"
    status: Status = "waiting"
    done: bool = False  # before: its worker need not be started
    asked: bool = False  # to stop
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def result(self) -> RunResult | None:
        """What its worker left; nothing where it has not come to an end."""
        return read_result(self.folder)

    @property
    def outcome(self) -> str:
        """How its worker ended, "finished" or "failed"; empty where it has not."""
        return self.result.status if self.result is not None else ""


View = Callable[[Sequence[Job]], None]
"""Is shown the work again and again while they run."""


class Pool:
    """At most `jobs` workers at once, with `threads` each."""

    def __init__(self, *, jobs: int, threads: int, view: View, interrupt: Interrupt):
        self.jobs, self.threads, self.view, self.interrupt = jobs, threads, view, interrupt

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
                if job.process is not None and job.process.poll() is None:
                    job.process.kill()

    def _start(self, work: Sequence[Job]) -> bool:
        """Start what waits while there is room; gives whether anything runs now."""
        running = sum(job.status == "running" for job in work)
        waiting = [job for job in work if job.status == "waiting"]
        if not self.interrupt.asked:
            for job in waiting[: self.jobs - running]:
                self._launch(job)
        return any(job.status == "running" for job in work)

    def _launch(self, job: Job) -> None:
        job.folder.mkdir(parents=True, exist_ok=True)
        request = job.request | {"threads": self.threads, "parent": os.getpid(), "folder": str(job.folder)}
        environment = os.environ | {"OMP_NUM_THREADS": str(self.threads), "TOKENIZERS_PARALLELISM": "false"}
        with (job.folder / LOG).open("a", encoding="utf-8") as log:
            job.process = subprocess.Popen(
                [sys.executable, "-m", job.module],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,  # a terminal's Ctrl-C is ours to hand on, once
            )
        assert job.process.stdin is not None
        job.process.stdin.write(json.dumps(request))
        job.process.stdin.close()
        job.status = "running"

    def _look(self, job: Job) -> None:
        """What became of a worker that has ended."""
        if job.status != "running" or job.process is None or job.process.poll() is None:
            return
        code, status = job.process.returncode, job.outcome
        if status in ("finished", "failed"):
            job.status = "finished" if status == "finished" else "failed"
        elif self.interrupt.asked:
            job.status = "stopped"
        else:
            job.status = "failed"
            write_result(job.folder, RunResult(status=RunState.FAILED, reason=died(code, job.folder)))

    def _stop(self, work: Sequence[Job]) -> None:
        """Ask every running worker to save and leave; those that have not begun stay as they are."""
        for job in work:
            if job.status == "running" and job.process is not None and not job.asked:
                job.process.send_signal(signal.SIGTERM)
                job.asked = True


def died(code: int, folder: Path) -> Reason:
    """Why a worker ended without a word."""
    if code < 0:
        return Reason(ReasonKind.KILLED, {"signal": signal.Signals(-code).name})
    if code > 128:
        return Reason(ReasonKind.ASKED_TO_STOP)
    return Reason(ReasonKind.EXIT_CODE, {"code": code, "log": str(folder / LOG)})
