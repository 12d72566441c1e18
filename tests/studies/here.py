"""An engine that runs jobs in this process: for tests of anything but processes, without their start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from attnlab.studies import worker
from attnlab.studies.engines import ENGINES
from attnlab.studies.engines.engine import Engine, Job


class Here(Engine):
    """Here: one job after the other, in this process."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def start(self, job: Job) -> None:
        self.codes[job.request.folder] = worker.work(job.request)

    def look(self, job: Job) -> int | None:
        return self.codes[job.request.folder]

    def stop(self, job: Job, *, at_once: bool = False) -> None:
        pass


@contextmanager
def here() -> Iterator[None]:
    """In the place of processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENGINES._variants, "local", Here)
        patch.setattr("attnlab.studies.engines.engine.LOOK", 0.0)
        yield
