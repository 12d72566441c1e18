"""A run as it goes on, by what it has written so far."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnlab.config.untrusted import refuse_device
from attnlab.runs.faults import FAULTS
from attnlab.runs.metrics_file import LONGEST, METRICS_FILE

KEEP = 0.95  # of what was seen before: a few dozen steps decide the speed that is shown


class FollowedEvents(ABC):
    """Takes each event of a run's metrics.jsonl once, as the file grows; begins anew where it was cut or
    written anew, as by a resume."""

    def __init__(self, folder: Path):
        self.file = folder / METRICS_FILE
        self._position, self._number = 0, 0
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Forget what was taken."""

    @abstractmethod
    def _take(self, event: dict[str, Any]) -> None: ...

    def _read_new(self) -> None:
        """Take what was written since the last time."""
        try:
            refuse_device(self.file)
            known = self.file.stat()
            if known.st_size < self._position or known.st_ino != self._number:
                self._position = 0
                self._begin()
            self._number = known.st_ino
            with self.file.open("rb") as stream:
                stream.seek(self._position)
                for line in stream:
                    if not line.endswith(b"\n"):  # one that is being written is read the next time
                        break
                    self._position += len(line)
                    with suppress(*FAULTS):  # a view of a run: a line that is damaged is left out
                        if len(line) <= LONGEST:
                            self._take(json.loads(line.decode()))
        except OSError:
            return


class Follower(FollowedEvents):
    """How far a run is, and how fast."""

    def _begin(self) -> None:
        self.loss: float | None = None
        self.step, self.progress, self.spent = 0, 0.0, 0.0
        self._seconds = self._tokens = 0.0

    def look(self) -> None:
        """Read what was written since the last look."""
        self._read_new()

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "stepped":
            step, seconds, tokens = int(event["step"]), float(event["seconds"]), float(event["tokens"])
            progress, loss = float(event["progress"]), float(event["loss"])
            if not (math.isfinite(seconds) and math.isfinite(tokens) and progress >= 0):
                return
            self.step, self.progress = step, min(progress, 1.0)
            self.loss = loss if math.isfinite(loss) else None
            self._seconds = KEEP * self._seconds + seconds
            self._tokens = KEEP * self._tokens + tokens
            self.spent += seconds

    def seconds(self) -> float:
        """Of all steps that were taken by now."""
        self.look()
        return self.spent

    @property
    def tokens_per_second(self) -> float | None:
        """Of the last steps; None before the first."""
        return self._tokens / self._seconds if self._seconds else None

    @property
    def seconds_left(self) -> float | None:
        """Until its budget is used up, at the speed so far; None before the first step."""
        return self.spent / self.progress * (1 - self.progress) if self.progress else None
