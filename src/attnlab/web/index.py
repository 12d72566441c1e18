"""Every run and study below a folder, kept up to date by the times of their files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attnlab.config.values import ConfigError
from attnlab.runs.faults import FAULTS, RunError, read_object
from attnlab.runs.findings import CHECKS_FILE
from attnlab.runs.folder import holder, locked_files
from attnlab.runs.follower import Follower
from attnlab.runs.metrics_file import METRICS_FILE
from attnlab.runs.reason import Reason
from attnlab.runs.record import RECORD
from attnlab.runs.result import RESULT, RunResult, RunState
from attnlab.runs.summary import STUDY_FILE, RunSummary, StudyRecord, read_summary
from attnlab.web.addresses import address_of, refuse_outside

DEEPEST = 8
"""Folders inside each other that are looked through."""
LEFT_OUT = ("checkpoints", "cache")
RESULTS = "results.json"
GROWING = ("running", "preparing")
ENDING = (*GROWING, "interrupted", "failed")
"""States in which a process may still work in the folder: it writes its last word before it ends."""
NEWS = 10.0
"""Seconds after which a run that goes on without a word is said to be silent."""

CURVE_EVERY = 5.0
ENDED_EVERY = 3.0
SETTLED = 2_000_000_000
"""Nanoseconds after which a folder's time is sure to tell it from how it was before."""
OF_STUDY = (STUDY_FILE, RESULTS)
OF_RUN = (RECORD, METRICS_FILE, RESULT, CHECKS_FILE)
"""Files by whose times it is known whether something changed."""
PAUSES = 20
"""How much longer the pause between two looks is than a look, at a run or at all of them."""

Stamp = tuple[tuple[int, int], ...]


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


@dataclass(frozen=True)
class IndexedStudy:
    """A study of the folder: its record, and whether it came to an answer."""

    address: str
    folder: Path
    record: Mapping[str, Any]
    stamp: Stamp
    process: int = 0
    fault: str = ""

    @property
    def name(self) -> str:
        return str(self.record.get("study", {}).get("name", self.folder.name))

    @property
    def question(self) -> str:
        return str(self.record.get("study", {}).get("question", ""))

    @property
    def arms(self) -> list[str]:
        return list(self.record.get("study", {}).get("arms") or {})

    @property
    def seeds(self) -> list[int]:
        given = self.record.get("study", {}).get("seeds", 0)
        return list(range(given)) if isinstance(given, int) else list(given)

    @property
    def ended(self) -> bool:
        return (self.folder / RESULTS).is_file()


@dataclass
class Index:
    """The runs and studies of a folder. `refresh` reads anew what has changed since the last time."""

    root: Path
    runs: dict[str, IndexedRun] = field(default_factory=dict)
    studies: dict[str, IndexedStudy] = field(default_factory=dict)
    turns: int = 0
    """Grows with each refresh that found a run or study that came, went or is in another state."""
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
            self.runs, self.studies = runs, studies
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
        """Refresh, unless that was done within so many seconds."""
        with self._lock:  # one that is under way ends first
            pass
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
        summary = self._summary(folder) if reread or known is None else known.summary
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

    def _summary(self, folder: Path) -> RunSummary:
        """A run in short; of a damaged one, or one that leads elsewhere, what is wrong with it."""
        try:
            refuse_outside(self.root, folder)
            return read_summary(folder)
        except (ConfigError, RunError, OSError, *FAULTS) as error:
            why = str(error).replace(f"{self.root}/", "")
            result = RunResult(status=RunState.DAMAGED, reason=Reason.error(why), folder=str(folder))
            return RunSummary(name=folder.name, date="", whole=False, config={}, result=result)

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
        return IndexedStudy(address, folder, record, stamp, process, fault), True

    def runs_of(self, study: str) -> list[IndexedRun]:
        return [run for run in self.runs.values() if run.study == study]


@dataclass(frozen=True)
class ListedFolder:
    """What a folder held when it was listed: whether it is a run's or a study's, and the folders in it."""

    time: int
    kind: str
    inside: tuple[str, ...]
    address: str
    place: Path


class Folders:
    """The folders below a root. One is listed anew where its time says that something came or went."""

    def __init__(self, root: Path):
        self.root = root
        self._known: dict[str, ListedFolder] = {}

    def found(self) -> dict[str, tuple[Path, bool]]:
        """Every run and study: its folder by its address, and whether it is a study. Links between folders
        are not followed."""
        found: dict[str, tuple[Path, bool]] = {}
        seen: dict[str, ListedFolder] = {}
        waiting = [(str(self.root), 0)]
        while waiting:
            folder, depth = waiting.pop()
            listed = self._listed(folder)
            if listed is None:
                continue
            seen[folder] = listed
            if listed.kind and depth:
                found[listed.address] = listed.place, listed.kind == STUDY_FILE
            if listed.kind != RECORD and depth < DEEPEST:
                waiting += [(f"{folder}/{name}", depth + 1) for name in reversed(listed.inside)]
        self._known = seen
        return found

    def _listed(self, folder: str) -> ListedFolder | None:
        try:
            changed = os.stat(folder).st_mtime_ns
            known = self._known.get(folder)
            if known is not None and known.time == changed:
                return known
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return None
        names = {entry.name for entry in listed}
        kind = STUDY_FILE if STUDY_FILE in names else RECORD if RECORD in names else ""
        inside = [
            entry.name
            for entry in listed
            if entry.name not in LEFT_OUT and not entry.name.startswith(".") and _is_folder(entry)
        ]
        # a clock has ticks: what comes in the same one is not seen
        settled = changed if time.time_ns() - changed > SETTLED else 0
        place = Path(folder)
        further = () if kind == RECORD else tuple(inside)
        return ListedFolder(settled, kind, further, address_of(self.root, place), place)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder that can have an address: a name that is not UTF-8 has none."""
    try:
        entry.name.encode()
        return entry.is_dir(follow_symlinks=False)
    except (OSError, UnicodeEncodeError):
        return False


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
