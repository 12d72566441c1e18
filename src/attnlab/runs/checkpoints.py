"""Where a run's checkpoints are, which of them are whole, and how one gets there or goes.

`checkpoints/step-N/` holds files of bytes, and last of all manifest.json with the size and hash of each. It
is written in a hidden folder, flushed, and renamed; a folder of another name is never read. Files that all
checkpoints of a run share are in the same folder, once. What the bytes mean is training/checkpoint.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Required, TypedDict

from attnlab.config.untrusted import refuse_device
from attnlab.runs.atomic import as_bytes, hash_of, replace_bytes, sync_folder, write_bytes
from attnlab.runs.faults import FAULTS, RunError, fault_phrase
from attnlab.runs.typed import check_record

FORMAT = 1
MANIFEST = "manifest.json"
FOLDER = "checkpoints"


class FileRecord(TypedDict):
    """What a file was when it was written."""

    bytes: int
    sha256: str


class Manifest(TypedDict, total=False):
    """What manifest.json holds; who writes a checkpoint may add facts."""

    format: int
    files: Required[dict[str, FileRecord]]
    shared: dict[str, FileRecord]
    answer: list[float]


class DamagedError(Exception):
    """A checkpoint that is not what was written, and why."""


class Checkpoints:
    """The folders of a run's checkpoints."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._shared: dict[str, FileRecord] = {}

    @classmethod
    def of(cls, run: Path) -> Checkpoints:
        """Those of a run's folder."""
        return cls(run / FOLDER)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        if not self.folder.is_dir():
            return []
        names = (entry.name for entry in self.folder.iterdir() if entry.is_dir())
        return sorted(
            int(n.removeprefix("step-")) for n in names if n.startswith("step-") and n[5:].isdecimal()
        )

    def write(
        self,
        step: int,
        files: Mapping[str, Callable[[], bytes]],
        shared: Mapping[str, Callable[[], bytes]],
        **facts: Any,
    ) -> Path:
        """Write a checkpoint of these files, with `facts` in its manifest.

        `shared` are files that are the same in all checkpoints, and written with the first. A checkpoint
        that is already there for this step holds the same, and stays.
        """
        place = self.path(step)
        if place.exists():
            return place
        try:
            self.begin(step)
            self.finish(step, files, shared, **facts)
        except OSError:
            shutil.rmtree(self.unfinished(step), ignore_errors=True)
            raise
        return place

    def unfinished(self, step: int) -> Path:
        """Where a checkpoint is until it is whole."""
        return self.folder / f".step-{step}.new"

    def begin(self, step: int, parts: Iterable[str] = ()) -> None:
        """Make room for a checkpoint, with folders of these names for parts that others write."""
        beside = self.unfinished(step)
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(beside, ignore_errors=True)
        for folder in (beside, *(beside / part for part in parts)):
            folder.mkdir()

    def finish(
        self,
        step: int,
        files: Mapping[str, Callable[[], bytes]],
        shared: Mapping[str, Callable[[], bytes]],
        *,
        written: Mapping[str, FileRecord] | None = None,
        **facts: Any,
    ) -> None:
        """Write these files beside those that were `written`, the manifest last, and let it be seen."""
        beside = self.unfinished(step)
        facts |= {"shared": self._share(shared)} if shared else {}
        _fill(beside, files, facts, written or {})
        os.rename(beside, self.path(step))
        sync_folder(self.folder)

    def _share(self, files: Mapping[str, Callable[[], bytes]]) -> dict[str, FileRecord]:
        """Write the files that are not there yet as they should be; gives the size and hash of each."""
        for name, content_of in files.items():
            if name in self._shared:
                continue
            content, file = content_of(), self.folder / name
            expected = size_and_hash(content)
            if not file.is_file() or hash_of(file) != expected["sha256"]:
                replace_bytes(file, content)
            self._shared[name] = expected
        return {name: self._shared[name] for name in files}

    def manifest(self, step: int) -> dict[str, Any]:
        """A checkpoint's manifest, every file verified; DamagedError says what is wrong with it."""
        return verify(self.path(step))

    def set_aside(self, step: int, why: str = "damaged") -> Path:
        """Take a checkpoint out of the way, for a person to look at."""
        aside = self.folder / f"{why}-step-{step}"
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(self.path(step), aside)
        return aside

    def prune(self, keep: int, best: int) -> None:
        """Remove all but the last `keep` and the best."""
        steps = self.steps()
        for step in steps[:-keep]:
            if step != best:
                self.remove(step)

    def remove(self, step: int) -> None:
        leaving = self.folder / f".step-{step}.old"  # out of sight first: never half there
        os.rename(self.path(step), leaving)
        shutil.rmtree(leaving, ignore_errors=True)

    def tidy(self) -> None:
        """Remove what a killed process left half written or half removed."""
        if self.folder.is_dir():
            for entry in self.folder.glob(".step-*"):
                shutil.rmtree(entry, ignore_errors=True)


def _fill(
    folder: Path,
    files: Mapping[str, Callable[[], bytes]],
    facts: Mapping[str, Any],
    before: Mapping[str, FileRecord],
) -> None:
    """Write the files one after the other, so that one at a time is in memory, and the manifest last."""
    written: dict[str, Any] = dict(before)
    for name, content_of in files.items():
        content = content_of()
        write_bytes(folder / name, content)
        written[name] = size_and_hash(content)
    write_bytes(folder / MANIFEST, as_bytes({"format": FORMAT, "files": written, **facts}))
    sync_folder(folder)


def size_and_hash(content: bytes) -> FileRecord:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def verify(folder: Path) -> dict[str, Any]:
    """The manifest; DamagedError unless every file is there, of its size and hash."""
    try:
        refuse_device(folder / MANIFEST)
        manifest = dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        check_record(manifest, Manifest)
    except FileNotFoundError:
        raise DamagedError("manifest.json is missing.") from None
    except FAULTS as error:
        raise DamagedError(f"manifest.json cannot be read ({fault_phrase(error)}).") from error
    if manifest.get("format") != FORMAT:
        raise RunError(f"{folder} was written by another version (format {manifest.get('format')}).")
    shared = {f"../{name}": expected for name, expected in manifest.get("shared", {}).items()}
    for name, expected in (manifest["files"] | shared).items():
        file = folder / name
        if not file.is_file():
            raise DamagedError(f"{name} is missing.")
        if file.stat().st_size != expected["bytes"]:
            raise DamagedError(f"{name} has {file.stat().st_size:,} bytes, not {expected['bytes']:,}.")
        if hash_of(file) != expected["sha256"]:
            raise DamagedError(f"{name} has a wrong checksum.")
    return manifest
