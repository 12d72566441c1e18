"""Runs and studies as processes of their own: they outlive the page, and stop as by Ctrl-C, saving."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.config.untrusted import open_plain
from attnlab.config.values import ConfigError
from attnlab.runs.folder import holder

LOG = "started.log"
LAST = 2000
"""Bytes at the end of a log that are shown."""
LAST_MOMENT = 20.0
"""Seconds in which a process ends that has saved all it had."""
MOST = 4
"""Of a person's clicks that train at once: a machine has few cores."""


@dataclass
class StartedProcess:
    """A command that the page began, and what it is for."""

    folder: Path
    command: list[str]
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.time)

    @property
    def code(self) -> int | None:
        return self.process.poll()

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than by coming to its end or being asked to stop."""
        return self.code not in (None, 0, -signal.SIGTERM, 128 + signal.SIGTERM, 128 + signal.SIGINT)

    @property
    def words(self) -> str:
        return shlex.join(["attnlab", *self.command])

    @property
    def log(self) -> str:
        """The end of what it said."""
        try:
            with open_plain(self.folder / LOG) as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - LAST))
                said = stream.read().decode(errors="replace").strip()
        except OSError as error:
            return f"What it said cannot be read: {error.strerror}."
        return said or ("" if self.code is None else self._silence())

    def _silence(self) -> str:
        """Why it may have said nothing: what it says is written to its folder."""
        room = shutil.disk_usage(self.folder).free
        full = f", on a disk that is full ({room:,} bytes are free)" if room < LAST else ""
        return f"It said nothing that could be written to its folder{full}."


class StartedProcesses:
    """What was started from here. What others started is found by the locks of its folders."""

    def __init__(self) -> None:
        self.started: dict[Path, StartedProcess] = {}
        self._lock = threading.Lock()

    def start(self, folder: Path, command: Sequence[str]) -> StartedProcess:
        """Begin a command that works in a folder, unless something works there already."""
        self._let_end(folder)
        with self._lock:
            running = [one for one in self.started.values() if one.code is None]
            if holder(folder) or any(one.folder == folder for one in running):
                raise ConfigError("A process works in this folder already; wait for it, or stop it.")
            if len(running) >= MOST:
                raise ConfigError(
                    f"{len(running)} trainings that were started here still run, which is the most at once; "
                    "wait for one, or stop one."
                )
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / LOG).open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "attnlab", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # neither the page's end nor its Ctrl-C is the run's
                    env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
                )
            self.started[folder] = StartedProcess(folder, list(command), process)
            threading.Thread(target=process.wait, daemon=True).start()  # no zombie is left
            return self.started[folder]

    def _let_end(self, folder: Path) -> None:
        """A process that has let go of its folder ends by itself; it is given a moment."""
        own = self.started.get(folder)
        if own is not None and own.code is None and not holder(folder):
            with suppress(subprocess.TimeoutExpired):
                own.process.wait(LAST_MOMENT)

    def stop(self, folder: Path) -> int:
        """Ask whoever works in a folder to save and end; gives its process."""
        own = self.started.get(folder)
        process = holder(folder) or (own.process.pid if own is not None and own.code is None else 0)
        if not process:
            raise ConfigError("No process of this machine works in this folder: there is nothing to stop.")
        try:
            os.kill(process, signal.SIGTERM)
        except ProcessLookupError:
            raise ConfigError("It has just ended.") from None
        except PermissionError:
            raise ConfigError(f"Process {process} belongs to somebody else, who has to stop it.") from None
        return process
