"""What the views share: the folder that is served, what is in it, and who works for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.web.addresses import NotServedError, folder_at, refuse_outside
from attnlab.web.course import Courses, RunCourse
from attnlab.web.index import Index
from attnlab.web.indexed import IndexedRun, IndexedStudy
from attnlab.web.live import Live
from attnlab.web.reports import Reports
from attnlab.web.started_processes import StartedProcesses
from attnlab.web.worker_pool import WorkerPool


@dataclass
class Laboratory:
    """A served folder. `root` is resolved: what a link leads out of it to is not served."""

    root: Path
    index: Index
    live: Live
    processes: StartedProcesses
    workers: WorkerPool
    reports: Reports
    courses: Courses = field(default_factory=Courses)

    @classmethod
    def at(
        cls, folder: Path, *, memory: int = 4 << 30, log: Callable[[str], None] = lambda line: None
    ) -> Laboratory:
        folder.mkdir(parents=True, exist_ok=True)
        root = folder.resolve()
        index = Index(root)
        workers = WorkerPool(root, memory=memory, log=log)
        return cls(root, index, Live(index), StartedProcesses(), workers, Reports(root))

    def out(self, name: str, *, chosen: bool = False) -> str:
        """What a command needs to make a run of this name here; nothing where it does so by itself, unless a
        person chose the name."""
        if not chosen and self.root == Path("runs").resolve():
            return ""
        below = self.root.relative_to(Path.cwd()) if self.root.is_relative_to(Path.cwd()) else self.root
        return f" --out {shlex.quote(str(below / name))}"

    def run(self, address: str) -> IndexedRun:
        """A run by its address."""
        address = address.strip("/")
        if address not in self.index.runs:
            folder_at(self.root, address)
            self.index.refresh()
        run = self.index.runs.get(address)
        if run is None:
            raise NotServedError(f'There is no run "{address}" here.')
        return run

    def study(self, address: str) -> IndexedStudy:
        address = address.strip("/")
        if address not in self.index.studies:
            folder_at(self.root, address)
            self.index.refresh()
        study = self.index.studies.get(address)
        if study is None:
            raise NotServedError(f'There is no study "{address}" here.')
        return study

    def course(self, run: IndexedRun) -> RunCourse:
        """How a run went so far."""
        refuse_outside(self.root, run.folder)
        return self.courses.of(run.folder)

    def model_folder(self, address: str) -> Path:
        """The folder of a run whose model is asked, once no file of it leads elsewhere."""
        folder = self.run(address).folder
        refuse_outside(self.root, folder, whole=True)
        return folder
