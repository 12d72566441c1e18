"""A run and a study as the page knows them."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from attnlab.config.values import ConfigError
from attnlab.runs.faults import FAULTS, RunError, fault_phrase
from attnlab.runs.result import RunState
from attnlab.runs.summary import RunSummary

RESULTS = "results.json"
GROWING = ("running", "preparing")
ENDING = (*GROWING, "interrupted", "failed")
"""States in which a process may still work in the folder: it writes its last word before it ends."""
NEWS = 10.0
"""Seconds after which a run that goes on without a word is said to be silent."""
MOST_SEEDS = 1000
"""Columns of a grid; a damaged record may ask for more than any machine has room for."""

Stamp = tuple[tuple[int, int], ...]
"""Time and size of each file by which it is known whether something changed."""


@dataclass(frozen=True)
class IndexedRun:
    """A run of the folder. `process` works on it at this moment, 0 where none of this machine does."""

    address: str
    folder: Path
    summary: RunSummary
    stamp: Stamp
    process: int = 0
    step: int = 0
    share: float = 0.0
    """Of its budget."""
    seconds_left: float | None = None
    loss: float | None = None
    """Of its last step."""
    tokens_per_second: float | None = None
    heard: float = 0.0
    """When it last wrote, by the clock."""
    read_at: float = 0.0
    """When its summary was read."""
    read_seconds: float = 0.0
    """How long that took: of a run that goes on, all of its events are read."""

    @property
    def state(self) -> RunState:
        """What it is now: one that was killed still says of itself that it runs, and a finished one with a
        failed check is invalid."""
        status = self.summary.result.status
        if status is RunState.FINISHED:
            return RunState.INVALID if self.summary.result.sound is False else status
        if status in GROWING and not self.process and time.time() - self.heard > NEWS:
            return RunState.INTERRUPTED
        return status

    @property
    def grows(self) -> bool:
        return self.state in GROWING

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it, good or bad; one that was interrupted may go on."""
        return not self.grows and self.state is not RunState.INTERRUPTED

    @property
    def study(self) -> str:
        """The address of its study; empty where it has none."""
        parts = self.address.split("/")
        places = (place for place in range(len(parts) - 1, 0, -1) if parts[place] in ("runs", "starts"))
        return "/".join(parts[: next(places, 0)])

    @property
    def elsewhere(self) -> str:
        """The other machine that trains it, by its record, or did when it was last heard of; empty where it
        has ended, or is trained by this one."""
        machines = self.summary.result.machines
        going = self.summary.result.status in GROWING and not self.process and bool(machines)
        node = str(machines[-1].get("node", "")) if going else ""
        return node if node != platform.node() else ""

    @property
    def took(self) -> float:
        """Seconds from its start to its last word, checks included; 0 where its start is not known."""
        try:
            started = datetime.fromisoformat(self.summary.date).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
        return max(0.0, self.heard - started)

    @property
    def arm(self) -> str:
        """The arm of its study; empty where it has none."""
        return self.folder.parent.name if self.study and self.folder.name.startswith("seed-") else ""


@contextmanager
def showing(what: str) -> Iterator[None]:
    """While a run is shown: a RunError where its records hold what no run writes."""
    try:
        yield
    except ConfigError:
        raise
    except FAULTS as error:
        raise RunError(f"{what} cannot be shown: {fault_phrase(error)}.") from error


@dataclass(frozen=True)
class StudyAnswer:
    """What the results of a study say in short; nothing where there are none, or where they are damaged."""

    headline: str = ""
    unfinished: frozenset[str] = frozenset()
    """The arms that were not finished: invalid, failed or not run."""
    interrupted: bool = False
    """Whether runs are missing that were stopped or did not begin."""


@dataclass(frozen=True)
class IndexedStudy:
    """A study of the folder: its record, and what it came to."""

    address: str
    folder: Path
    record: Mapping[str, Any]
    stamp: Stamp
    process: int = 0
    fault: str = ""
    answer: StudyAnswer = StudyAnswer()

    @property
    def name(self) -> str:
        return str(self.record.get("study", {}).get("name", self.folder.name))

    @property
    def question(self) -> str:
        return str(self.record.get("study", {}).get("question", ""))

    @property
    def arms(self) -> list[str]:
        arms = self.record.get("study", {}).get("arms")
        return list(map(str, arms)) if isinstance(arms, Mapping) else []

    @property
    def baseline(self) -> str:
        return str(self.record.get("study", {}).get("baseline") or next(iter(self.arms), ""))

    @property
    def refused(self) -> list[str]:
        """Arms that could not be built, and have no runs."""
        configs = self.record.get("configs")
        return [arm for arm in self.arms if arm not in configs] if configs else []

    @property
    def seeds(self) -> list[int]:
        given = self.record.get("study", {}).get("seeds", 0)
        if isinstance(given, int):
            return list(range(min(given, MOST_SEEDS)))
        return (
            [seed for seed in given if isinstance(seed, int)][:MOST_SEEDS] if isinstance(given, list) else []
        )

    @property
    def ended(self) -> bool:
        """Whether it came to results, which may lack runs that were asked for later."""
        return (self.folder / RESULTS).is_file()

    @property
    def interrupted(self) -> bool:
        return not self.process and (not self.ended or self.answer.interrupted)
