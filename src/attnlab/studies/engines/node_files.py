"""The files of a run on a node that does not see the study's folder, and how they get there and home.

What stands at /some/path at home stands at ROOT/some/path there. Files travel in pieces, and count as arrived
when their hash is that of the other side.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.config.files import config_of, identity
from attnlab.runs.atomic import as_bytes, replace_bytes, sync_folder
from attnlab.runs.checkpoints import FOLDER, Checkpoints, DamagedError, FileRecord, verify
from attnlab.runs.result import RESULT
from attnlab.studies.engines.engine import JobRequest

PIECE = 16 << 20
"""Bytes of a file that are sent at once: memory does not grow with a checkpoint."""
TRANSLATED = ("run.json", "checks.json", RESULT)
"""Files that name paths, which are those of the side on which they stand."""
Listing = dict[str, FileRecord]
"""Files by their names below a folder."""


def is_of_run(file: Path) -> bool:
    """Whether a file belongs to a run: not what is half written, nor who works in its folder."""
    return not any(part.startswith(".") for part in file.parts) and file.name != "lock"


class HashedFiles:
    """Sizes and hashes; a file that has not changed since is not read again."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[tuple[int, ...], FileRecord]] = {}

    def record(self, file: Path) -> FileRecord:
        """Of as many bytes as the file has now: it may grow meanwhile."""
        state = file.stat()
        key = (state.st_ino, state.st_mtime_ns, state.st_size)
        if file in self._seen and self._seen[file][0] == key:
            return self._seen[file][1]
        record = FileRecord(bytes=state.st_size, sha256=hash_of_start(file, state.st_size))
        self._seen[file] = key, record
        return record

    def listing(self, folder: Path) -> Listing:
        """The files of a run as they stand. Checkpoints come first: what is read of the run's events after
        them holds all that they rest on."""
        checkpoints = sorted((folder / FOLDER).rglob("*"))
        listed = Listing()
        for file in dict.fromkeys([*checkpoints, *sorted(folder.rglob("*"))]):
            name = file.relative_to(folder)
            if is_of_run(name):
                try:
                    listed |= {name.as_posix(): self.record(file)} if file.is_file() else {}
                except FileNotFoundError:
                    continue  # a checkpoint that was just removed
        return listed


def hash_of_start(file: Path, size: int) -> str:
    """The hash of a file's first bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while size > 0 and (piece := stream.read(min(size, PIECE))):
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()


def read_piece(file: Path, offset: int, size: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)


def write_piece(file: Path, offset: int, piece: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("r+b" if offset else "wb") as stream:
        stream.seek(offset)
        stream.write(piece)


def pieces(source: Path | bytes) -> Iterator[tuple[int, bytes]]:
    """A file's content by its offsets; an empty one is one empty piece."""
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    for offset in range(0, max(size, 1), PIECE):
        whole = isinstance(source, bytes)
        yield offset, source[offset : offset + PIECE] if whole else read_piece(source, offset, PIECE)  # type: ignore[index, arg-type]


# ---------------------------------------------------------------- paths of both sides
@dataclass(frozen=True)
class NodePaths:
    """Where on a node what stands elsewhere at home is: `paths` are the absolute ones of a job's request."""

    root: str
    paths: frozenset[str] = frozenset()

    def place(self, path: str | Path) -> Path:
        """Of an absolute path at home."""
        return Path(self.root, *Path(path).expanduser().absolute().parts[1:])

    def there(self, value: Any) -> Any:
        """A record with the paths of the node."""
        known = {path: str(self.place(path)) for path in self.paths}
        return translated(value, lambda text: known.get(text, text))

    def home(self, value: Any) -> Any:
        """A record of the node with the paths of home."""
        known = {str(self.place(path)): path for path in self.paths}
        return translated(value, lambda text: known.get(text) or text.replace(self.root, ""))

    def request(self, request: JobRequest) -> JobRequest:
        return JobRequest.of_json(self.there(request.as_json()))

    def sent(self, name: str, content: bytes) -> bytes:
        """A file of a run as it stands on the node."""
        return as_bytes(self.there(json.loads(content))) if name in TRANSLATED else content

    def received(self, name: str, content: bytes) -> bytes:
        """A file of a run as it stands at home."""
        if name not in TRANSLATED:
            return content
        record = self.home(json.loads(content))
        if name == "run.json":
            record["identity"] = identity(config_of(record["config"]))
        return as_bytes(record)


def translated(value: Any, text_of: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {key: translated(inner, text_of) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [translated(inner, text_of) for inner in value]
    return text_of(value) if isinstance(value, str) else value


# ---------------------------------------------------------------- brought home
Reader = Callable[[str, int, int], bytes]
"""Reads a piece of a run's file on its node: name, offset, size."""


@dataclass
class BroughtHome:
    """A run's folder at home, kept as the one on its node is."""

    folder: Path
    paths: NodePaths
    read: Reader
    known: Listing = field(default_factory=Listing)
    """What has arrived, as it is on the node."""

    def update(self, listing: Listing, *, ended: bool = False) -> list[str]:
        """Bring home what has changed; gives what did not arrive as it was listed.

        The result is the last to come, when the run has `ended` and all else is here: a run that has one is
        done. Checkpoints come after the events that they rest on, and are whole or not there.
        """
        steps, plain = by_checkpoint(listing)
        missing = [name for name in plain if name != RESULT and not self._arrives(name, listing[name])]
        for step, files in steps.items():
            if not Checkpoints.of(self.folder).path(step).exists():
                missing += self._checkpoint_arrives(step, {name: listing[name] for name in files})
        if not missing:
            self._forget(steps)
            if ended and RESULT in listing and not self._arrives(RESULT, listing[RESULT]):
                missing.append(RESULT)
        return missing

    def _arrives(self, name: str, expected: FileRecord) -> bool:
        """Whether a file is here as it was listed."""
        if self.known.get(name) == expected:
            return True
        target = self.folder / name
        if name in TRANSLATED:
            content = self._content(name, expected)
            if content is None:
                return False
            replace_bytes(target, self._as_of_home(name, content))
        elif not self._grows(target, name, expected) and not self._fetch(name, expected, target):
            return False
        self.known[name] = expected
        return True

    def _as_of_home(self, name: str, content: bytes) -> bytes:
        home = self.paths.received(name, content)
        if name != RESULT or not (self.folder / "run.json").is_file():
            return home
        record = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        result = json.loads(home)
        return as_bytes({**result, "identity": record["identity"]}) if result.get("identity") else home

    def _content(self, name: str, expected: FileRecord) -> bytes | None:
        content = self.read(name, 0, expected["bytes"])
        return content if hashlib.sha256(content).hexdigest() == expected["sha256"] else None

    def _grows(self, target: Path, name: str, expected: FileRecord) -> bool:
        """Whether what is new of a file that only grows could be put at its end."""
        before = self.known.get(name, {"bytes": 0})["bytes"]
        added = expected["bytes"] - before
        if not 0 < added <= PIECE or not before or target.stat().st_size != before:
            return False
        piece = self.read(name, before, added)
        digest = hashlib.sha256(target.read_bytes())
        digest.update(piece)
        if digest.hexdigest() != expected["sha256"]:
            return False
        with target.open("ab") as stream:
            stream.write(piece)
        return True

    def _fetch(self, name: str, expected: FileRecord, target: Path) -> bool:
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        for offset in range(0, max(expected["bytes"], 1), PIECE):
            write_piece(beside, offset, self.read(name, offset, min(PIECE, expected["bytes"] - offset)))
        whole = hash_of_start(beside, beside.stat().st_size) == expected["sha256"]
        if whole:
            os.replace(beside, target)
        beside.unlink(missing_ok=True)
        return whole

    def _checkpoint_arrives(self, step: int, files: Listing) -> list[str]:
        """Bring a checkpoint home; gives what of it did not arrive."""
        place = Checkpoints.of(self.folder).path(step)
        beside = place.with_name(f".{place.name}.new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        missing = [
            name for name, file in files.items() if not self._fetch(name, file, beside / Path(name).name)
        ]
        try:
            if not missing:
                verify(beside)
                os.rename(beside, place)
                sync_folder(place.parent)
        except DamagedError:  # it was removed there while it was listed
            missing = [*files]
        shutil.rmtree(beside, ignore_errors=True)
        return missing

    def _forget(self, steps: Iterable[int]) -> None:
        """Remove checkpoints that the run has removed."""
        kept = [*steps]
        checkpoints = Checkpoints.of(self.folder)
        for step in checkpoints.steps() if kept else ():
            if step not in kept:
                checkpoints.remove(step)


def by_checkpoint(listing: Listing) -> tuple[dict[int, list[str]], list[str]]:
    """The names of each checkpoint's files by its step, in order, and all others."""
    steps, plain = dict[int, list[str]](), list[str]()
    for name in listing:
        folder, _, rest = name.removeprefix(f"{FOLDER}/step-").partition("/")
        if name.startswith(f"{FOLDER}/step-") and folder.isdecimal() and rest:
            steps.setdefault(int(folder), []).append(name)
        else:
            plain.append(name)
    return dict(sorted(steps.items())), plain
