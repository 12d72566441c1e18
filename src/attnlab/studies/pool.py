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

from attnlab.training.files import replace_json
from attnlab.training.interrupt import Interrupt

RESULT = "result.json"
LOG = "worker.log"
LOOK = 0.1  # seconds between two looks at the workers

Status = Literal["waiting", "running", "finished", "failed", "stopped"]


@dataclass
class Task:
    """One run that is wanted: its folder, and what its worker is told."""

    arm: str
    seed: int
    folder: Path
    request: dict[str, Any]
    module: str = "attnlab.studies.worker"
    status: Status = "waiting"
    asked: bool = False  # to stop
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def result(self) -> dict[str, Any]:
        """What its worker left; nothing where it has not come to an end."""
        return read_result(self.folder)


View = Callable[[Sequence[Task]], None]
"""Is shown the tasks again and again while they run."""


def read_result(folder: Path) -> dict[str, Any]:
    """A run's result.json; empty where it has none."""
    try:
        return dict(json.loads((folder / RESULT).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


class Pool:
    """At most `jobs` workers at once, with `threads` each."""

    def __init__(self, *, jobs: int, threads: int, view: View, interrupt: Interrupt):
        self.jobs, self.threads, self.view, self.interrupt = jobs, threads, view, interrupt

    def run(self, tasks: Sequence[Task]) -> None:
        """Until all have ended, or a person asked to stop and the running ones have saved."""
        for task in tasks:
            if task.result.get("status") == "finished":
                task.status = "finished"
        try:
            while any(task.status == "running" for task in tasks) or self._start(tasks):
                self.view(tasks)
                time.sleep(LOOK)
                for task in tasks:
                    self._look(task)
                if self.interrupt.asked:
                    self._stop(tasks)
                else:
                    self._start(tasks)
            self.view(tasks)
        finally:
            for task in tasks:
                if task.process is not None and task.process.poll() is None:
                    task.process.kill()

    def _start(self, tasks: Sequence[Task]) -> bool:
        """Start what waits while there is room; gives whether anything runs now."""
        running = sum(task.status == "running" for task in tasks)
        waiting = [task for task in tasks if task.status == "waiting"]
        if not self.interrupt.asked:
            for task in waiting[: self.jobs - running]:
                self._launch(task)
        return any(task.status == "running" for task in tasks)

    def _launch(self, task: Task) -> None:
        task.folder.mkdir(parents=True, exist_ok=True)
        request = task.request | {"threads": self.threads, "parent": os.getpid(), "folder": str(task.folder)}
        environment = os.environ | {"OMP_NUM_THREADS": str(self.threads), "TOKENIZERS_PARALLELISM": "false"}
        with (task.folder / LOG).open("a", encoding="utf-8") as log:
            task.process = subprocess.Popen(
                [sys.executable, "-m", task.module],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,  # a terminal's Ctrl-C is ours to hand on, once
            )
        assert task.process.stdin is not None
        task.process.stdin.write(json.dumps(request))
        task.process.stdin.close()
        task.status = "running"

    def _look(self, task: Task) -> None:
        """What became of a worker that has ended."""
        if task.status != "running" or task.process is None or task.process.poll() is None:
            return
        code, status = task.process.returncode, task.result.get("status")
        if status in ("finished", "failed"):
            task.status = "finished" if status == "finished" else "failed"
        elif self.interrupt.asked:
            task.status = "stopped"
        else:
            task.status = "failed"
            replace_json(task.folder / RESULT, {"status": "failed", "reason": died(code, task.folder)})

    def _stop(self, tasks: Sequence[Task]) -> None:
        """Ask every running worker to save and leave; those that have not begun stay as they are."""
        for task in tasks:
            if task.status == "running" and task.process is not None and not task.asked:
                task.process.send_signal(signal.SIGTERM)
                task.asked = True


def died(code: int, folder: Path) -> str:
    """Why a worker ended without a word."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = "; the machine may be out of memory" if name == "SIGKILL" else ""
        return f"The worker was ended by {name}{hint}. Go on with --resume."
    if code > 128:
        return "The worker was asked to stop from outside, and saved. Go on with --resume."
    return f"The worker ended with exit code {code}; its last words are in {folder / LOG}."
