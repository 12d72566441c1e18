"""How often a run may lose its node: as long as it comes further in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.result import RunResult, RunState, write_result
from attnlab.studies.engines.engine import Job

TRIES = 5
"""Times that a run's node may be lost without a new checkpoint in between."""


@dataclass
class LostNodes:
    """The nodes that a run has lost since its last new checkpoint, which is of `step`."""

    step: int = 0
    times: int = 0

    @classmethod
    def of(cls, job: Job) -> Self:
        return cls(newest_step(job))

    def too_many(self, job: Job) -> bool:
        """Count another; where that is too many, the run has failed, and its result says so."""
        step = newest_step(job)
        self.times = 1 if step > self.step else self.times + 1
        self.step = step
        if self.times <= TRIES:
            return False
        reason = Reason(ReasonKind.NODE_LOST, {"times": self.times})
        write_result(job.folder, RunResult(status=RunState.FAILED, reason=reason))
        return True


def newest_step(job: Job) -> int:
    return max(Checkpoints.of(job.folder).steps(), default=0)
