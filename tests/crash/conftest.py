from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    code: int
    said: str


class Commands:
    """`attnlab …` in processes of their own; a negative code is the signal that ended one."""

    def __init__(self, folder: Path):
        environment = os.environ | {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TOKENIZERS_PARALLELISM": "false",
        }
        environment["COLUMNS"] = "400"
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
        self, *argv: Any, inject: str = "", at: int = 0, meanwhile: Callable[[int], None] | None = None
    ) -> Ended:
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"argv": list(map(str, argv)), "inject": inject, "at": at, "errors": str(self.errors)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        number = json.loads(self.process.stdout.readline())["pid"]
        if meanwhile is not None:
            meanwhile(number)
        code = json.loads(self.process.stdout.readline())["code"]
        return Ended(code, self.errors.read_text())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def attnlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands
    commands.close()
