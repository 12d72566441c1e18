"""Runs of a study in this process: what a test of anything but processes needs, without their start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from attnlab.studies import timing, worker
from attnlab.studies.pool import Pool, Task

WORK = {"attnlab.studies.worker": worker.work, "attnlab.studies.timing": timing.work}


def launch(pool: Pool, task: Task) -> None:
    task.folder.mkdir(parents=True, exist_ok=True)
    code = WORK[task.module](task.request | {"threads": pool.threads, "folder": str(task.folder)})
    task.process = SimpleNamespace(returncode=code, poll=lambda: code)  # type: ignore[assignment]
    task.status = "running"


@contextmanager
def here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "_launch", launch)
        patch.setattr("attnlab.studies.pool.LOOK", 0.0)
        yield
