"""Runs of a study in this process: what a test of anything but processes needs, without their start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from attnlab.studies import timing, worker
from attnlab.studies.pool import Job, Pool

WORK = {"attnlab.studies.worker": worker.work, "attnlab.studies.timing": timing.work}


def launch(pool: Pool, job: Job) -> None:
    job.folder.mkdir(parents=True, exist_ok=True)
    code = WORK[job.module](job.request | {"threads": pool.threads, "folder": str(job.folder)})
    job.process = SimpleNamespace(returncode=code, poll=lambda: code)  # type: ignore[assignment]
    job.status = "running"


@contextmanager
def here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "_launch", launch)
        patch.setattr("attnlab.studies.pool.LOOK", 0.0)
        yield
