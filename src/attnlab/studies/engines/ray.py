"""Runs on the nodes of a Ray cluster: Ray decides where and when, a keeper on the node does the rest."""

from __future__ import annotations

import os
import platform
import secrets
import signal
import socket
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from attnlab.config.values import ConfigError
from attnlab.data.workers import cores
from attnlab.runs.checkpoints import size_and_hash
from attnlab.runs.faults import RunError
from attnlab.runs.result import RESULT
from attnlab.studies.engines.engine import ClusterRecord, Engine, Job, NodeRecord
from attnlab.studies.engines.keeper import Greeting, Keeper, WorkerReport, decisive_versions
from attnlab.studies.engines.node_files import (
    TRANSLATED,
    BroughtHome,
    HashedFiles,
    Listing,
    NodePaths,
    pieces,
)
from attnlab.studies.engines.optional_library import library
from attnlab.studies.engines.resuming import LostNodes
from attnlab.studies.files_read import FilesRead, files_read

WAIT = 1.0
"""Seconds for which a look at a run waits for its end: it is seen at once, and not asked for often."""
SHARE = 0.05
"""Of the time, what bringing a run's files home may take: large ones come less often."""
TRIES = 5
"""Times that a file is sent."""
STORE = 100 << 20
"""Bytes of the object store of a local cluster: nothing but pieces of files goes through it."""
SHORT = 24
"""Characters of a folder's name in which Ray's sockets can stand."""
PATIENCE = 10.0
"""Seconds to reach an address, and to end a keeper."""


@dataclass
class PlacedRun:
    """A job as Ray has it: who keeps it, and what was last asked and answered."""

    keeper: Any
    reply: Any
    read: FilesRead
    mark: Path
    losses: LostNodes
    greeting: Greeting | None = None
    home: BroughtHome | None = None
    next_look: float = 0.0
    damaged: int = 0
    ended: bool = False


class Ray(Engine):
    """Ray: each run on a node of a Ray cluster.

    Without an `address` a cluster of this machine alone is started, and ended with the study. A node that
    does not see the study's folder gets the files that a run reads, and what it writes is brought home while
    it runs. A run whose node is lost is resumed on another from its last checkpoint.
    """

    queues = True

    def __init__(self, *, address: str = "local"):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # which is on, unless it is set at import
        self.ray = library("ray")
        self.address = address
        self.place = "this machine's Ray" if address == "local" else f"the Ray cluster at {address}"
        self.runs: dict[str, PlacedRun] = {}
        self.hashes = HashedFiles()
        self.open = ExitStack()

    def __enter__(self) -> Self:
        if self.ray.is_initialized():  # by the person, in a notebook: it is theirs to end
            if self.address == "local":
                return self
            raise ConfigError(
                f"--address is {self.address}, and this process has called ray.init already; leave the "
                "address out to use that cluster, or call ray.shutdown() first."
            )
        refuse_unreachable(self.address)
        settings = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address == "local":
            settings |= {"num_cpus": cores(), "object_store_memory": STORE, "include_dashboard": False}
            settings |= {"_temp_dir": self.open.enter_context(TemporaryDirectory(prefix="ray-", dir=near()))}
        self.open.callback(self.ray.shutdown)
        try:
            self.ray.init(address=self.address, **settings)
        except BaseException as error:
            self.open.close()
            if isinstance(error, (OSError, RuntimeError, ValueError)):
                raise ConfigError(unreachable(self.address, str(error))) from error
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for run in self.runs.values():
            self._end(run)
        self.open.close()

    def cluster(self) -> ClusterRecord:
        nodes = tuple(
            NodeRecord(node["NodeManagerHostname"], *map(int, _amounts(node["Resources"])))
            for node in self.ray.nodes()
            if node["Alive"]
        )
        return ClusterRecord(nodes, *map(int, _amounts(self.ray.available_resources())))

    # ------------------------------------------------------------ one job
    def start(self, job: Job) -> None:
        (job.folder / RESULT).unlink(missing_ok=True)
        self.runs[job.request.folder] = self._placed(job, LostNodes.of(job))

    def _placed(self, job: Job, losses: LostNodes) -> PlacedRun:
        """Ask Ray for a place; it has none yet."""
        job.folder.mkdir(parents=True, exist_ok=True)
        needs = self.cluster().needs(job.request.device, job.request.threads)
        options = {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "max_restarts": 0}
        keeper = self.ray.remote(**options)(Keeper).remote()
        read = files_read(job.request)
        mark = job.folder.absolute() / f".mark-{os.getpid()}"
        mark.write_text(word := secrets.token_hex(16), encoding="utf-8")
        sizes = [(str(file), file.stat().st_size) for file in read.files]
        return PlacedRun(keeper, keeper.greet.remote((str(mark), word), sizes), read, mark, losses)

    def queued(self, job: Job) -> bool:
        return self.runs[job.request.folder].greeting is None

    def look(self, job: Job) -> int | None:
        run = self.runs[job.request.folder]
        try:
            return self._advance(run, job)
        except self.ray.exceptions.RayActorError as error:
            if getattr(error, "actor_init_failed", False):
                raise ConfigError(
                    f"A node of {self.place} cannot start a worker: install attnlab "
                    f"{decisive_versions()['attnlab']} on every node ({str(error).strip().splitlines()[-1]})."
                ) from error
            return self._lost(run, job)

    def _advance(self, run: PlacedRun, job: Job) -> int | None:
        """What there is to do by now; the exit code of a worker that has ended and whose files are here."""
        if run.reply is None and time.monotonic() >= run.next_look:
            run.reply = run.keeper.look.remote(WAIT)
        if run.reply is None or not self.ray.wait([run.reply], timeout=0)[0]:
            return None
        reply, run.reply = self.ray.get(run.reply), None
        if isinstance(reply, Greeting):
            run.mark.unlink(missing_ok=True)
            self._begin(run, job, reply)
            return None
        began = time.monotonic()
        is_home = self._is_home(run, reply)
        run.next_look = began + (time.monotonic() - began) / SHARE
        if not is_home:
            return None
        self._end(run)
        return reply.code

    def _begin(self, run: PlacedRun, job: Job, greeting: Greeting) -> None:
        """Start the worker, with all that it reads."""
        refuse_versions(greeting)
        run.greeting = greeting
        request, cwd = job.request, str(Path.cwd())
        if not greeting.shares:
            paths = NodePaths(greeting.root, run.read.paths)
            run.read = files_read(job.request)  # other runs have found something meanwhile
            known = self._send(run, job, paths)
            request, cwd = paths.request(request), str(paths.place(cwd))
            run.home = BroughtHome(job.folder, paths, self._reader(run), known)
        modules = [str(run.home.paths.place(m)) if run.home else m for m in run.read.modules]
        self._call(run.keeper.begin, request.as_json(), cwd, modules)

    def _is_home(self, run: PlacedRun, report: WorkerReport) -> bool:
        """Whether a worker has ended and all that it left is here."""
        ended = report.code is not None
        if run.home is None:
            return ended
        assert report.listing is not None
        missing = run.home.update(report.listing, ended=ended)
        run.damaged = run.damaged + 1 if missing and ended else 0
        if run.damaged >= TRIES:
            assert run.greeting is not None
            raise RunError(
                f"{missing[0]} of {run.home.folder} came damaged from {run.greeting.node}, {TRIES} times."
            )
        return ended and not missing

    def _lost(self, run: PlacedRun, job: Job) -> int | None:
        """The node is gone: the run is resumed elsewhere, unless it came no further the last few times."""
        run.mark.unlink(missing_ok=True)
        self.ray.kill(run.keeper)  # one that is merely out of reach must not go on beside the next
        if job.asked:
            return 128 + signal.SIGTERM
        if run.losses.too_many(job):
            run.ended = True
            return 1
        self.runs[job.request.folder] = self._placed(job, run.losses)
        return None

    def stop(self, job: Job, *, at_once: bool = False) -> None:
        run = self.runs.get(job.request.folder)
        if run is None or run.ended:
            return
        if at_once or run.greeting is None:
            self._end(run)
        else:
            run.keeper.stop.remote()

    def _end(self, run: PlacedRun) -> None:
        """The keeper goes, and with it the worker."""
        if not run.ended:
            run.ended = True
            run.mark.unlink(missing_ok=True)
            errors = self.ray.exceptions
            with suppress(errors.RayActorError, errors.GetTimeoutError):
                if run.greeting is not None:
                    self.ray.get(run.keeper.leave.remote(), timeout=PATIENCE)
            self.ray.kill(run.keeper)

    # ------------------------------------------------------------ files of a node that does not share ours
    def _call(self, method: Any, *given: Any, **named: Any) -> Any:
        return self.ray.get(method.remote(*given, **named))

    def _reader(self, run: PlacedRun) -> Any:
        return lambda name, offset, size: self._call(run.keeper.read, name, offset, size)

    def _send(self, run: PlacedRun, job: Job, paths: NodePaths) -> Listing:
        """Put what a job reads on its node, and what its run has left so far; gives the latter."""
        for file in run.read.files:
            self._send_file(run, file, paths, keep=True)
        for file in run.read.findings:
            self._send_file(run, file, paths, name=file.name)
        known = self.hashes.listing(job.folder)
        for name in known:
            self._send_file(run, job.folder / name, paths, name=name)
        return {name: record for name, record in known.items() if name not in TRANSLATED}

    def _send_file(
        self, run: PlacedRun, file: Path, paths: NodePaths, *, name: str = "", keep: bool = False
    ) -> None:
        """Put a file at its place on the node; `name` is that in a run's folder, for what is in one."""
        there, content = str(paths.place(file)), file if name not in TRANSLATED else b""
        if isinstance(content, bytes):
            content = paths.sent(name, file.read_bytes())
            expected = size_and_hash(content)
        else:
            expected = self.hashes.record(file)
        if keep and self._call(run.keeper.link, there, expected["sha256"]):
            return
        for _ in range(TRIES):
            for offset, piece in pieces(content):
                self._call(run.keeper.receive, there, offset, piece)
            if self._call(run.keeper.arrived, there, expected, keep=keep):
                return
        assert run.greeting is not None
        raise RunError(f"{file} came damaged to {run.greeting.node}, {TRIES} times.")


def near() -> str | None:
    """Where a cluster's files stand while it is there: the names of sockets among them may not be long."""
    return None if len(tempfile.gettempdir()) <= SHORT else "/tmp"


def _amounts(resources: dict[str, float]) -> tuple[float, float]:
    return resources.get("CPU", 0.0), resources.get("GPU", 0.0)


def refuse_versions(greeting: Greeting) -> None:
    """Stop where a node would compute something else than this machine."""
    for name, own in decisive_versions().items():
        if greeting.versions[name] != own:
            raise ConfigError(
                f"{greeting.node} has {name} {greeting.versions[name]}, and {platform.node()} has {own}: "
                "runs of both cannot be compared. Install the same versions on every node."
            )


def refuse_unreachable(address: str) -> None:
    """Stop where nobody answers at an address: Ray itself would try for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host:
        if address not in ("local", "auto"):
            raise ConfigError(f'--address is "{address}"; give HOST:PORT, or auto on a node of the cluster.')
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, ValueError) as error:
        raise ConfigError(unreachable(address, str(error))) from error


def unreachable(address: str, error: str) -> str:
    return (
        f"No Ray cluster can be reached at --address {address}: {error.strip().rstrip('.')}. Start one with: "
        "ray start --head, or leave --address out for a cluster of this machine."
    )
