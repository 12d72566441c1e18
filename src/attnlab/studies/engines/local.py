"""Runs in processes of their own on this machine: none takes another down, and none outlives us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from attnlab.studies.engines.engine import LOG, Engine, Job


class Local(Engine):
    """Local: each run in a process of its own on this machine."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, job: Job) -> None:
        job.folder.mkdir(parents=True, exist_ok=True)
        threads = {"OMP_NUM_THREADS": str(job.request.threads), "TOKENIZERS_PARALLELISM": "false"}
        with (job.folder / LOG).open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "attnlab.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=os.environ | threads,
                start_new_session=True,  # a terminal's Ctrl-C is ours to hand on, once
            )
        self.processes[job.request.folder] = process
        assert process.stdin is not None
        process.stdin.write(json.dumps({"request": job.request.as_json(), "parent": os.getpid()}))
        process.stdin.close()

    def look(self, job: Job) -> int | None:
        return self.processes[job.request.folder].poll()

    def stop(self, job: Job, *, at_once: bool = False) -> None:
        process = self.processes.get(job.request.folder)
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
        if at_once:
            process.wait()
