"""Commands in processes of their own, without a second's import each: a loaded process that forks.

Reads one JSON request a line: {"argv": […], "inject": "kill" | "count" | "file-limit", "at": n,
"checked": whether runs are checked, "forks": whether a study's workers are forked too, "errors": FILE}.
Answers with the child's number at once, and with its exit status when it ends.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import torch
from typer.testing import CliRunner

import attnlab
from attnlab.cli import app, main
from attnlab.model.model import Model
from attnlab.runs import atomic, checkpoints
from attnlab.runs.metrics_file import MetricsFile
from attnlab.session import soundness
from attnlab.studies.engines import worker_process
from attnlab.training.optimizers import Optimizers


class Points:
    """Counts the instants at which a kill could hurt, and kills at one of them."""

    def __init__(self, kill_at: int):
        self.passed, self.kill_at = 0, kill_at

    def passing(self) -> bool:
        """Whether this is the instant."""
        self.passed += 1
        return self.passed == self.kill_at

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str) -> None:
        """An instant before a call, and one after it."""
        inner = getattr(owner, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            if self.passing():
                self.die()
            result = inner(*arguments, **named)
            if self.passing():
                self.die()
            return result

        setattr(owner, name, watched)

    def halfway(self, module: Any) -> None:
        """An instant at which half of a file is written."""
        inner: Callable[[Path, bytes], None] = atomic.write_bytes

        def watched(file: Path, content: bytes) -> None:
            if self.passing():
                file.write_bytes(content[: len(content) // 2])
                self.die()
            inner(file, content)

        module.write_bytes = watched

    def install(self) -> None:
        self.around(Model, "forward")
        self.around(Optimizers, "step")
        self.around(checkpoints.Checkpoints, "prune")
        for owner, name in ((os, "rename"), (os, "replace"), (os, "fsync"), (shutil, "rmtree")):
            self.around(owner, name)
        for module in (atomic, checkpoints):
            self.halfway(module)
        told = MetricsFile.__call__

        def half_a_line(metrics: MetricsFile, event: Any) -> None:
            if self.passing():
                metrics.stream.write('{"event": "stepped", "st')
                metrics.stream.flush()
                self.die()
            told(metrics, event)

        MetricsFile.__call__ = half_a_line  # type: ignore[method-assign]


class ForkedWorker:
    """In the place of `subprocess.Popen([python, "-m", module], …)`: a process, session and standard input
    of its own, without an interpreter's start."""

    def __init__(self, words: list[str], *, stdout: TextIO, env: dict[str, str], **_: Any):
        asked, ask = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._work(words[-1], asked, stdout, env)
        os.close(asked)
        self.stdin = os.fdopen(ask, "w")

    def _work(self, module: str, asked: int, log: TextIO, env: dict[str, str]) -> None:
        os.setsid()
        for number, file in enumerate((asked, log.fileno(), log.fileno())):
            os.dup2(file, number)
        os.closerange(3, 256)  # as a new program would: locks are the parent's
        sys.stdin = os.fdopen(0)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.environ.update(env)
        code: Any = 1
        try:
            importlib.import_module(module).main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(code))

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self) -> None:
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)


def child(request: dict[str, Any]) -> None:
    errors = os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 2)
    os.dup2(errors, 1)
    if request["forks"]:
        worker_process.subprocess = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    if not request["checked"]:
        soundness.run_checks = lambda case, names=(): []
    inject, at = request.get("inject"), int(request.get("at", 0))
    points = Points(at if inject == "kill" else 0)
    if inject in ("kill", "count"):
        points.install()
    if inject == "file-limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
    sys.argv = ["attnlab", *request["argv"]]
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    if inject == "count":
        print(f"\npoints {points.passed}", flush=True)
    sys.stdout.flush()
    os._exit(int(code))


NO_COMMANDS = ("attnlab.__main__", "attnlab.pytest_plugin", "attnlab.interop.transformers")
"""Modules that no command imports; the last takes as long to load as all others together."""


def load_everything() -> None:
    """What commands import when they need it, before the first fork: children then have it at once."""
    for found in pkgutil.walk_packages(attnlab.__path__, "attnlab."):
        if found.name not in NO_COMMANDS:
            importlib.import_module(found.name)
    for name in ("csv", "pyarrow.parquet", "rich.progress", "rich.table", "plotly.offline", "jinja2"):
        importlib.import_module(name)
    CliRunner().invoke(app, ["explain", "counts"])  # what typer and rich import on their way


def serve() -> None:
    torch.set_num_threads(1)
    load_everything()
    for line in sys.stdin:
        request = json.loads(line)
        number = os.fork()
        if number == 0:
            child(request)
        print(json.dumps({"pid": number}), flush=True)
        _, status = os.waitpid(number, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    serve()
