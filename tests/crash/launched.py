"""`attnlab train --processes` in processes of their own, which a test may kill or stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.metrics_file import read_events
from attnlab.training.checkpoint import read_checkpoint


class Launched:
    """A command that was started."""

    def __init__(self, *words: Any, **about: Any):
        command = [sys.executable, "-m", "attnlab", *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes, **about)

    def workers(self) -> dict[int, int]:
        """The numbers of its processes by rank."""
        ranks = {}
        for place in Path("/proc").iterdir():
            try:
                parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
                words = (place / "environ").read_bytes().split(b"\0")
            except (OSError, IndexError, ValueError):
                continue
            if parent == self.process.pid:
                ranks |= {int(word[5:]): int(place.name) for word in words if word.startswith(b"RANK=")}
        return ranks

    def signal(self, rank: int, number: int) -> bool:
        """Whether there was a process of that rank to signal."""
        pid = self.workers().get(rank)
        if pid is not None:
            os.kill(pid, number)
        return pid is not None

    def ended(self, late: float = 120) -> tuple[int, str, str]:
        """Its exit code, and what it wrote to stdout and stderr."""
        try:
            out, err = self.process.communicate(timeout=late)
        finally:
            self.process.kill()
        return self.process.returncode, out, err


def wait_for_steps(run: Path, steps: int, late: float = 90) -> None:
    until = time.monotonic() + late
    while time.monotonic() < until:
        if sum(event["event"] == "stepped" for event in read_events(run / "metrics.jsonl")) >= steps:
            return
        time.sleep(0.05)
    raise AssertionError(f"{run} took no {steps} steps within {late} seconds")


def outcome(run: Path, step: int) -> dict[str, Any]:
    """What a run came to, but for its times."""
    checkpoint = read_checkpoint(Checkpoints.of(run), step)
    events = [e for e in read_events(run / "metrics.jsonl") if e["event"] in ("stepped", "evaluated")]
    tensors = checkpoint.model | checkpoint.optimizer
    record = json.loads((run / "run.json").read_text())
    return {
        "tensors": {name: tensor.numpy().tobytes() for name, tensor in tensors.items()},
        "events": [{name: value for name, value in event.items() if name != "seconds"} for event in events],
        "trace": record["trace"],
        "status": record["status"],
    }
