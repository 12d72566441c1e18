"""A run's folder: one config, one process at a time, and a record of what happened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnlab.config.files import config_of, identity, to_json
from attnlab.config.imports import changed_code, code_of, require_code
from attnlab.config.schema import Config
from attnlab.config.untrusted import open_plain
from attnlab.config.values import ConfigError
from attnlab.runs.atomic import remove_halves, replace_json
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.faults import RunError, reading
from attnlab.runs.metrics_file import METRICS_FILE, read_events
from attnlab.runs.record import RECORD, Fingerprints, differences, other_versions, read_record, refuse_changes

Changed = Callable[[Config, Config, Path], list[str]]
"""Takes the config of a run, the one to resume it with, and its folder; gives warnings."""


def refused(recorded: Config, wanted: Config, run: Path) -> list[str]:
    """Refuse to resume a run with another config."""
    refuse_changes(to_json(recorded), to_json(wanted), run)
    return []


DERIVED = ("data", "order", "given")
"""Fingerprints that change where the text or the tokenizer does, which is then what has changed."""


class RunFolder:
    """`run.json`, `metrics.jsonl`, `tokenizer.json` and `checkpoints/` of one run."""

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = Checkpoints.of(path)
        self.metrics = path / METRICS_FILE
        self.record: dict[str, Any] = {}

    @property
    def exists(self) -> bool:
        return (self.path / RECORD).is_file()

    @property
    def begun(self) -> bool:
        """Whether a step was taken: what failed before can be begun anew, there is nothing to lose."""
        stepped = any(event["event"] == "stepped" for event in read_events(self.metrics))
        return stepped or bool(self.checkpoints.steps())

    def config(self) -> Config:
        """The config that the run was started with; the own code that it uses must have been imported."""
        record = read_record(self.path)
        require_code(record.get("imports", ()), self.path)
        with reading(self.path / RECORD):
            return config_of(record["config"])

    @contextmanager
    def opened(
        self, config: Config, *, resume: bool, versions: Mapping[str, Any], changed: Changed = refused
    ) -> Iterator[list[str]]:
        """Hold the folder for this process; begin its record, or take it up. Gives warnings.

        `versions` is what the run's bits depend on here, beside its config. `changed` is asked where a run
        that took steps is resumed with another config.
        """
        make_folder(self.path)
        with lock(self.path / "lock"):
            remove_halves(self.path)
            warnings = list[str]()
            self.refuse_taken(resume=resume)
            if self.exists and self.begun:
                self.checkpoints.tidy()
                self.record, begun_with = read_record(self.path), self.config()
                if list(differences(to_json(begun_with), to_json(config))):
                    warnings += changed(begun_with, config, self.path)
                    self.record |= {"config": to_json(config), "identity": identity(config)}
            else:
                self.metrics.unlink(missing_ok=True)
                self.checkpoints.tidy()
                self.record = {"config": to_json(config), "identity": identity(config), "seed": config.seed}
                self.record |= {"imports": code_of(config)}
            warnings += other_versions(self.record.get("versions", versions), versions)
            warnings += changed_code(self.record.get("imports", ()))
            with self.recorded():
                self.note(status="preparing", versions=dict(versions))
            try:
                yield warnings
            except ConfigError as error:  # such as text that cannot be used
                self.note(status="failed", error=str(error))
                raise

    def refuse_taken(self, *, resume: bool) -> None:
        """Refuse a folder whose run would be lost, or that holds none to resume: one that took no step has
        nothing to lose."""
        if not self.exists:
            return
        record = read_record(self.path)
        converted = record.get("status") == "converted"
        if resume and "averaged" in record:
            raise ConfigError(
                f"{self.path} holds the mean of checkpoints of {record['averaged']['run']}: there is nothing "
                "to resume. Resume that run, or begin another from the mean with --set start=…"
            )
        if converted and resume:
            raise ConfigError(f"{self.path} holds a converted model, not a run: there is nothing to resume.")
        if not resume and (converted or self.begun):
            raise ConfigError(
                f"{self.path} already holds a run; continue it with --resume, or give another --out."
            )

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """A failure inside is put on record; one to write is told with what is safe."""
        try:
            yield
        except BaseException as error:
            with suppress(OSError):  # a full disk is one of the things that may have happened
                self.note(status="failed", error=str(error) or type(error).__name__)
            if isinstance(error, OSError):
                raise RunError(self._unwritable(error)) from error
            raise

    def _unwritable(self, error: OSError) -> str:
        steps = self.checkpoints.steps()
        safe = (
            f"The checkpoint of step {steps[-1]} is whole" if steps else "No checkpoint had been written yet"
        )
        return (
            f"Writing to {self.path} failed: {error.strerror or error}. {safe}; make room, or make the "
            "folder writable, and continue with --resume."
        )

    def note(self, **facts: Any) -> None:
        """Add facts to run.json."""
        self.record |= facts
        replace_json(self.path / RECORD, self.record)

    def expect(self, fingerprints: Fingerprints) -> None:
        """Note the fingerprints; refuse those that are not the ones the run was begun with."""
        facts = vars(fingerprints)
        for name in sorted(facts, key=DERIVED.__contains__):
            value = facts[name]
            recorded = self.record.get(name, value)
            if recorded != value:
                raise ConfigError(
                    f"{self.path} cannot be resumed: the {name} changed (was {recorded}, now {value}). "
                    "Restore it, or start a new run with another --out."
                )
        self.note(**facts)


class FollowedFolder(RunFolder):
    """The folder of a run as the other processes of it see it: the first one writes, they read."""

    @contextmanager
    def opened(
        self, config: Config, *, resume: bool, versions: Mapping[str, Any], changed: Changed = refused
    ) -> Iterator[list[str]]:
        self.record = read_record(self.path)
        yield []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        yield

    def note(self, **facts: Any) -> None:
        self.record |= facts

    def expect(self, fingerprints: Fingerprints) -> None:
        self.note(**vars(fingerprints))  # the first process compares them


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise RunError(
            f"The run cannot be kept in {path}: {error.strerror or error}. Give a folder that can be written "
            "to with --out."
        ) from error


@contextmanager
def lock(file: Path) -> Iterator[None]:
    """Hold a file's lock, which the system releases however the process ends."""
    import fcntl

    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            raise RunError(
                f"Another process (number {holder}) is working in {file.parent}; wait for it, stop it, or "
                "give another --out."
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


LOCKS = Path("/proc/locks")
"""What Linux knows of all locks; reading it takes none."""


def locked_files() -> set[tuple[int, int]] | None:
    """The process and the file's number of every lock that is held here; None where no system says."""
    try:
        lines = LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    held = set()
    for line in lines:
        _, *words = line.split()
        if words[0] == "FLOCK":
            held.add((int(words[3]), int(words[4].rpartition(":")[2])))
    return held


def holder(folder: Path, held: set[tuple[int, int]] | None = None) -> int:
    """The process of this machine that works in the folder of a run or a study; 0 where none does.

    `held` are the locked files, where many folders are asked for. The lock itself is not tried: a process
    that begins at that moment would be refused.
    """
    try:
        with open_plain(folder / "lock") as stream:
            process, number = int(stream.read(20)), os.fstat(stream.fileno()).st_ino
    except (OSError, ValueError):
        return 0
    if process <= 0:
        return 0
    held = locked_files() if held is None else held
    if held is not None:
        return process if (process, number) in held else 0
    try:
        os.kill(process, 0)
    except (OSError, OverflowError):
        return 0
    return process
