"""The worker of a job, `attnlab.studies.worker`, as a process on the machine where this runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attnlab.studies.engines.engine import LOG, JobRequest


class WorkerProcess:
    """A process and session of its own, which does not outlive the one that started it."""

    def __init__(
        self, request: JobRequest, *, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ):
        folder = Path(request.folder)
        folder.mkdir(parents=True, exist_ok=True)
        own = {"OMP_NUM_THREADS": str(request.threads), "TOKENIZERS_PARALLELISM": "false"}
        with (folder / LOG).open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "attnlab.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                cwd=cwd,
                env={**os.environ, **(environment or {}), **own},
                start_new_session=True,  # a terminal's Ctrl-C is ours to hand on, once
            )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"request": request.as_json(), "parent": os.getpid()}))
        self.process.stdin.close()

    @property
    def code(self) -> int | None:
        """Its exit code, negative where a signal ended it; None while it runs."""
        return self.process.poll()

    def wait(self, seconds: float) -> int | None:
        """The same as soon as there is one, and no later than after so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.code

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to save and end; with `at_once`, end it."""
        if self.code is None:
            self.process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
            if at_once:
                self.process.wait()
