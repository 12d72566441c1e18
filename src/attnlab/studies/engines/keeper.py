"""Who looks after a run on its node: starts its worker, stops it, and hands out its files."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnlab import __version__
from attnlab.runs.cache_folder import default_cache
from attnlab.runs.checkpoints import FileRecord
from attnlab.runs.faults import RunError
from attnlab.runs.folder import lock
from attnlab.studies.engines.engine import JobRequest
from attnlab.studies.engines.node_files import (
    HashedFiles,
    Listing,
    hash_of_start,
    read_piece,
    write_piece,
)
from attnlab.studies.engines.worker_process import WorkerProcess


@dataclass(frozen=True)
class Greeting:
    """What a node is: whether it `shares` all files of a job, and if not, where it keeps its own."""

    node: str
    versions: Mapping[str, str]
    shares: bool
    root: str = ""


@dataclass(frozen=True)
class WorkerReport:
    """The exit code of a worker, None while it runs, and what its folder holds where that is not shared."""

    code: int | None
    listing: Listing | None = None


class Keeper:
    """Looks after one run on the node where this object is."""

    def __init__(self) -> None:
        self.worker: WorkerProcess | None = None
        self.hashes = HashedFiles()
        self.root: Path | None = None
        self.folder = Path()
        self.open = ExitStack()

    def greet(self, mark: tuple[str, str], files: Sequence[tuple[str, int]]) -> Greeting:
        """Whether this node sees what home does: a file with a word that is nowhere else, and all others."""
        place, word = mark
        shares = _holds(Path(place), word) and all(_size(Path(file)) == size for file, size in files)
        if not shares:
            self.root = self._own_folder()
        return Greeting(platform.node(), decisive_versions(), shares, str(self.root or ""))

    def _own_folder(self) -> Path:
        """A folder of this node's own; those of keepers that were killed are removed."""
        above = default_cache() / "runs"
        above.mkdir(parents=True, exist_ok=True)
        for other in above.iterdir():
            with suppress(RunError, OSError), lock(other / "lock"):
                shutil.rmtree(other, ignore_errors=True)
        root = Path(tempfile.mkdtemp(dir=above))
        self.open.enter_context(lock(root / "lock"))
        return root

    # ------------------------------------------------------------ files that a run reads
    def link(self, file: str, sha256: str) -> bool:
        """Put a file that was sent for another run in its place; whether there is one of that hash."""
        kept, place = self._kept(sha256), Path(file)
        if not kept.is_file():
            return False
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        link_or_copy(kept, place)
        return True

    def receive(self, file: str, offset: int, piece: bytes) -> None:
        write_piece(Path(file), offset, piece)

    def arrived(self, file: str, expected: FileRecord, *, keep: bool = False) -> bool:
        """Whether a file is what was sent; with `keep`, it serves other runs too."""
        place = Path(file)
        if hash_of_start(place, place.stat().st_size) != expected["sha256"]:
            return False
        if keep:
            kept = self._kept(expected["sha256"])
            kept.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(place, kept)
        return True

    def _kept(self, sha256: str) -> Path:
        return default_cache() / "sent" / sha256

    # ------------------------------------------------------------ the run
    def begin(self, request: Mapping[str, Any], cwd: str, modules: Sequence[str] = ()) -> None:
        """Start the worker as at home in `cwd`; own modules are found in the folders `modules`."""
        self.folder = Path(cwd, request["folder"])
        if self.root is not None:
            Path(cwd).mkdir(parents=True, exist_ok=True)
        beside = Path(cwd) if Path(cwd).is_dir() else None  # whoever needs it has been asked for its files
        search = os.pathsep.join([*modules, *filter(None, [os.environ.get("PYTHONPATH", "")])])
        own = JobRequest.of_json({**request, "folder": str(self.folder)})
        self.worker = WorkerProcess(own, cwd=beside, environment={"PYTHONPATH": search})

    def look(self, wait: float = 0.0) -> WorkerReport:
        """How far the worker is when it ends, or after `wait` seconds."""
        assert self.worker is not None
        code = self.worker.wait(wait)  # first: what is listed of one that has ended is all there is
        return WorkerReport(code, None if self.root is None else self.hashes.listing(self.folder))

    def read(self, name: str, offset: int, size: int) -> bytes:
        """A piece of a file of the run; nothing where it is gone."""
        try:
            return read_piece(self.folder / name, offset, size)
        except FileNotFoundError:
            return b""

    def stop(self, *, at_once: bool = False) -> None:
        if self.worker is not None:
            self.worker.stop(at_once=at_once)

    def leave(self) -> None:
        """End, and leave nothing behind but files that serve other runs."""
        self.stop(at_once=True)
        self.open.close()
        if self.root is not None:
            shutil.rmtree(self.root, ignore_errors=True)


def link_or_copy(file: Path, target: Path) -> None:
    """A second name for a file that is not changed; a copy where the disk has no such names."""
    try:
        os.link(file, target)
    except FileExistsError:
        return  # another keeper was as fast
    except OSError:
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(file, beside)
        os.replace(beside, target)


def _holds(file: Path, word: str) -> bool:
    try:
        return file.read_text(encoding="utf-8") == word
    except (OSError, ValueError):
        return False


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def decisive_versions() -> dict[str, str]:
    """What must be the same on every node for runs to be comparable; torch is not imported for it."""
    return {"attnlab": __version__, "torch": version("torch")}
