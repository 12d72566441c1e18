"""Every run and study below a folder, kept up to date by the times of their files."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.runs.faults import FAULTS, RunError, read_object
from attnlab.runs.findings import CHECKS_FILE
from attnlab.runs.folder import holder, locked_files
from attnlab.runs.follower import Follower
from attnlab.runs.metrics_file import METRICS_FILE
from attnlab.runs.reason import ReasonKind
from attnlab.runs.record import RECORD
from attnlab.runs.result import RESULT
from attnlab.runs.summary import STUDY_FILE, RunSummary, StudyRecord, read_summary
from attnlab.studies.outcome import ArmState, StudyOutcome
from attnlab.web.addresses import LARGEST, refuse_outside
from attnlab.web.folders import Folders
from attnlab.web.indexed import ENDING, GROWING, NEWS, RESULTS, IndexedRun, IndexedStudy, Stamp, StudyAnswer

CURVE_EVERY = 5.0
ENDED_EVERY = 3.0
OF_STUDY = (STUDY_FILE, RESULTS)
OF_RUN = (RECORD, METRICS_FILE, RESULT, CHECKS_FILE)
"""Files by whose times it is known whether something changed."""
PATIENCE = 0.3
"""Seconds that a page waits for a look that is under way."""
PAUSES = 20
"""How much longer the pause between two looks is than a look, at a run or at all of them."""


@dataclass
class Index:
    """The runs and studies of a folder. `refresh` reads anew what has changed since the last time."""

    root: Path
    runs: dict[str, IndexedRun] = field(default_factory=dict)
    studies: dict[str, IndexedStudy] = field(default_factory=dict)
    turns: int = 0
    """Grows with each refresh that found a run or study that came, went or is in another state."""
    _runs_of: dict[str, list[IndexedRun]] = field(default_factory=dict)
    _states: dict[str, object] = field(default_factory=dict)
    _followers: dict[str, Follower] = field(default_factory=dict)
    version: int = 0
    """Grows with each refresh that found something new."""
    seconds: float = 0.0
    """Processor time of the last refresh."""
    _begun: float = 0.0
    _stamped: dict[str, float] = field(default_factory=dict)
    """When all files of a run that has ended were last looked at."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self) -> set[str]:
        """The addresses of what has changed, come or gone. Who reads `runs` meanwhile sees them as they were
        before, all of them; one refresh serves all who asked for it before it began."""
        asked = time.monotonic()
        with self._lock:
            if self._begun > asked:
                return set()
            self._begun, worked = time.monotonic(), time.thread_time()
            found = self._folders.found()
            held = locked_files()
            changed = {address for address in (*self.runs, *self.studies) if address not in found}
            runs: dict[str, IndexedRun] = {}
            studies: dict[str, IndexedStudy] = {}
            for address, (folder, is_study) in found.items():
                stamp = self._stamp(address, folder, is_study=is_study)
                if is_study:
                    studies[address], is_new = self._read_study(address, folder, stamp, held)
                else:
                    runs[address], is_new = self._read_run(address, folder, stamp, held)
                if is_new:
                    changed.add(address)
            of_study = dict[str, list[IndexedRun]]()
            for run in runs.values():
                of_study.setdefault(run.study, []).append(run)
            self.runs, self.studies, self._runs_of = runs, studies, of_study
            for address in self._followers.keys() - runs.keys():
                del self._followers[address]
            states: dict[str, object] = {address: run.state for address, run in runs.items()}
            states |= {address: bool(study.process) for address, study in studies.items()}
            self.turns, self._states = self.turns + (states != self._states), states
            self.version += bool(changed)
            self.seconds = time.thread_time() - worked
            return changed

    def __post_init__(self) -> None:
        self._folders = Folders(self.root)

    def look(self, seconds: float) -> None:
        """Refresh, unless that was done within so many seconds. One that is under way is waited for, but not
        for long once there is something to show: a folder may have a run that takes seconds to read."""
        if not self._lock.acquire(timeout=PATIENCE if self.turns else -1):
            return
        self._lock.release()
        if time.monotonic() - self._begun > seconds:
            self.refresh()

    def _stamp(self, address: str, folder: Path, *, is_study: bool) -> Stamp:
        """The times of its files; of a run that has ended its record tells whether it goes on, and the others
        are looked at now and then."""
        known, now = self.runs.get(address), time.monotonic()
        ended = known is not None and known.summary.result.status not in ENDING
        if ended and known is not None and now - self._stamped.get(address, 0.0) < ENDED_EVERY:
            return (*stamp_of(folder, (RECORD,)), *known.stamp[1:])
        self._stamped[address] = now
        return stamp_of(folder, OF_STUDY if is_study else OF_RUN)

    def _read_run(
        self, address: str, folder: Path, stamp: Stamp, held: set[tuple[int, int]] | None
    ) -> tuple[IndexedRun, bool]:
        """A run as it is, and whether it is another than when it was last looked at."""
        known = self.runs.get(address)
        if known is not None and known.stamp == stamp:
            if known.summary.result.status not in ENDING:
                return known, False
            process = holder(folder, held)
            return replace(known, process=process), process != known.process or self._fell_silent(known)
        follower = self._followers.setdefault(address, Follower(folder))
        reread = known is None or not known.grows or _stale(known, stamp)
        begun = time.time()
        summary = self._summary(folder, follower) if reread or known is None else known.summary
        read_seconds = time.time() - begun
        grows = summary.result.status in GROWING
        if grows:
            follower.look()
        else:
            self._followers.pop(address, None)
        run = IndexedRun(
            address,
            folder,
            summary,
            stamp,
            process=holder(folder, held) if summary.result.status in ENDING else 0,
            step=max(follower.step, summary.result.steps),
            share=follower.progress if grows else _share_of(summary),
            seconds_left=follower.seconds_left,
            loss=follower.loss,
            tokens_per_second=follower.tokens_per_second,
            heard=max(at for at, _ in stamp) / 1e9,
            read_at=begun if reread or known is None else known.read_at,
            read_seconds=read_seconds if reread or known is None else known.read_seconds,
        )
        return run, True

    def _fell_silent(self, run: IndexedRun) -> bool:
        """Whether a run counts as interrupted from this look on."""
        silent = run.summary.result.status in GROWING and not run.process
        return silent and NEWS < time.time() - run.heard < NEWS + 3

    def _summary(self, folder: Path, follower: Follower) -> RunSummary:
        """A run in short; of a damaged one, or one that leads elsewhere, what is wrong with it."""
        try:
            refuse_outside(self.root, folder)
            return read_summary(folder, within=self.root, spent=follower.seconds)
        except (ConfigError, RunError, OSError, *FAULTS) as error:
            why = str(error).replace(f"{self.root}/", "")
            return RunSummary.damaged(folder, why)

    def _read_study(
        self, address: str, folder: Path, stamp: Stamp, held: set[tuple[int, int]] | None
    ) -> tuple[IndexedStudy, bool]:
        known, process = self.studies.get(address), holder(folder, held)
        if known is not None and known.stamp == stamp:
            return replace(known, process=process), process != known.process
        record, fault = {}, ""
        try:
            refuse_outside(self.root, folder)
            record = read_object(folder / STUDY_FILE, StudyRecord)
        except (ConfigError, RunError, OSError, *FAULTS) as error:
            fault = str(error).replace(f"{self.root}/", "")
        answer = StudyAnswer() if fault else answer_of(folder)
        return IndexedStudy(address, folder, record, stamp, process, fault, answer), True

    def runs_of(self, study: str) -> list[IndexedRun]:
        return self._runs_of.get(study, [])


def answer_of(folder: Path) -> StudyAnswer:
    """What a study came to; nothing where its results cannot be read, which its page says."""
    try:
        outcome = StudyOutcome.of_json(read_json(folder / RESULTS, most=LARGEST))
        unfinished = [arm.name for arm in outcome.all_arms if arm.state is not ArmState.FINISHED]
        reasons = {reason.kind for arm in outcome.all_arms for reason in arm.reasons}
        missing = not reasons.isdisjoint((ReasonKind.STOPPED, ReasonKind.NOT_BEGUN))
        return StudyAnswer(outcome.headline, frozenset(unfinished), interrupted=missing)
    except (ConfigError, RunError, OSError, *FAULTS):
        return StudyAnswer()


def stamp_of(folder: Path, names: tuple[str, ...]) -> Stamp:
    """Time and size of each file, (0, 0) where it is not there."""
    times = []
    for name in names:
        try:
            known = os.stat(f"{folder}/{name}", follow_symlinks=False)
            times.append((known.st_mtime_ns, known.st_size))
        except OSError:
            times.append((0, 0))
    return tuple(times)


def _stale(known: IndexedRun, now: Stamp) -> bool:
    """Whether the summary of a run that goes on is read anew: at once when more than metrics.jsonl has
    changed, else every few seconds, since its whole curve is read, and of a long run less often yet."""
    before, pause = known.stamp, max(CURVE_EVERY, PAUSES * known.read_seconds)
    return before[0] != now[0] or before[2:] != now[2:] or time.time() - known.read_at > pause


def _share_of(summary: RunSummary) -> float:
    return 1.0 if summary.result.trained else (summary.curve.shares or (0.0,))[-1]
