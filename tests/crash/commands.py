"""`attnlab …` in processes of their own, forked from one that has everything loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LONGEST = 900.0
"""Seconds after which a command hangs, and is killed."""


@dataclass(frozen=True)
class Ended:
    code: int
    said: str


class Commands:
    """Asks the process of zygote.py; a negative code is the signal that ended a command."""

    def __init__(self, folder: Path, **variables: str):
        environment = os.environ | {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TOKENIZERS_PARALLELISM": "false",
            "COLUMNS": "400",
            **variables,
        }
        self.errors = folder / "said.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    def __call__(
        self,
        *argv: Any,
        inject: str = "",
        at: int = 0,
        checked: bool = True,
        forks: bool = False,
        meanwhile: Callable[[int], None] | None = None,
    ) -> Ended:
        """Run a command to its end.

        Unchecked, a small run takes a quarter of the time; that checks change nothing of it has tests of its
        own. With `forks`, workers of a study begin at once, too.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {
            "argv": list(map(str, argv)),
            "inject": inject,
            "at": at,
            "checked": checked,
            "forks": forks,
            "errors": str(self.errors),
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        number = json.loads(self.process.stdout.readline())["pid"]
        ended_late = threading.Timer(LONGEST, os.kill, (number, signal.SIGKILL))
        ended_late.start()
        try:
            if meanwhile is not None:
                meanwhile(number)
        except BaseException:
            os.kill(number, signal.SIGKILL)
            raise
        finally:
            code = json.loads(self.process.stdout.readline())["code"]
            ended_late.cancel()
        return Ended(code, self.errors.read_text(encoding="utf-8", errors="replace"))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
