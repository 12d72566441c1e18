"""Thousands of inputs that may be wrong, each answered: done, or refused in a sentence.

Repeat one: `python -m tests.soak.soak --input 1234`. Many: `python -m tests.soak.soak --count 10000`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.commands import ROOT, Commands, Ended
from tests.soak import sound
from tests.soak.input import Input
from tests.soak.inputs import KINDS

TOGETHER = 40
"""Inputs that one process answers."""
LONGEST = 2000
"""Characters that a refusal may have."""


@dataclass
class Tally:
    """What came of the inputs, by kind."""

    succeeded: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def table(self) -> str:
        kinds = sorted({*self.succeeded, *self.refused})
        lines = [
            f"{kind}: {self.succeeded[kind] + self.refused[kind]} answered, {self.refused[kind]} refused"
            for kind in kinds
        ]
        total = (
            f"{self.succeeded.total()} succeeded, {self.refused.total()} refused, {len(self.failures)} failed"
        )
        return "\n".join([*lines, total])


def drawn(seed: int, number: int) -> tuple[str, Random]:
    """The kind of an input, and the random numbers that it is made from."""
    pick = Random(hashlib.sha256(f"{seed}/{number}".encode()).digest())
    names = list(KINDS)
    return pick.choices(names, [KINDS[name][0] for name in names])[0], pick


def fault_of(ended: Ended) -> str:
    """Why an answer is none; empty where it is one."""
    if "Traceback (most recent call last)" in ended.said or "panicked at" in ended.said:
        return ended.said[-4000:]
    if ended.code not in (0, 1, 2):
        return f"ended with {ended.code}: {ended.said[:600]}…{ended.said[-1400:]}"
    if ended.code and not ended.said.strip():
        return f"ended with {ended.code}, and without a word"
    refusal = ended.said[max(ended.said.rfind("Error"), 0) :]  # before it a plan may have been told
    if ended.code == 2 and len(refusal) > LONGEST:
        return f"said {len(refusal)} characters: {refusal[:1000]}"
    return ""


class Asked:
    """The process of answering.py."""

    def __init__(self, folder: Path):
        environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "400"}
        environment |= {"TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, "-m", "tests.soak.answering"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)

    def answers(self, made: Sequence[Input], work: Path) -> Iterator[Ended]:
        """What came of inputs, one after the other; those after one that ended the process get another."""
        requests = [
            {
                "argv": list(map(str, one.argv)),
                "call": f"tests.soak.calls:{one.call}" if one.call else "",
                "said": str(work / f"said-{number}"),
                "environment": dict(one.environment),
            }
            for number, one in enumerate(made)
        ]
        while requests:
            for code in self._ask(requests):
                yield Ended(code, Path(requests.pop(0)["said"]).read_text(encoding="utf-8", errors="replace"))

    def _ask(self, requests: list[dict[str, Any]]) -> Iterator[int]:
        """The codes of requests, up to the one that ended the process: its signal."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(requests) + "\n")
        self.process.stdin.flush()
        while "ended" not in (told := json.loads(self.process.stdout.readline())):
            yield told["code"]
        if told["ended"]:
            yield told["ended"]

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


Answered = tuple[int, str, Input, Ended]
"""Number, kind, the input, and what came of it."""


def soak(folder: Path, numbers: Iterable[int], *, seed: int = 0) -> Iterator[Answered]:
    """Try inputs by their numbers, in their order."""
    attnlab = Commands(folder)
    base = sound.make(folder / "sound", attnlab)
    attnlab.close()
    asked = Asked(folder)
    waiting = iter(numbers)
    try:
        while some := list(islice(waiting, TOGETHER)):
            work = Path(tempfile.mkdtemp(dir=folder))
            drawings = [drawn(seed, number) for number in some]
            made = []
            for number, (kind, pick) in zip(some, drawings, strict=True):
                (own := work / str(number)).mkdir()
                made.append(KINDS[kind][1](pick, base, own))
            found = asked.answers(made, work)
            for number, (kind, _), one, ended in zip(some, drawings, made, found, strict=True):
                yield number, kind, one, ended
            shutil.rmtree(work)
    finally:
        asked.close()


def tally(folder: Path, numbers: Iterable[int], *, seed: int = 0, log: Path | None = None) -> Tally:
    found = Tally()
    for number, kind, made, ended in soak(folder, numbers, seed=seed):
        fault = fault_of(ended)
        if fault:
            command = shlex.join(map(str, [made.call or "attnlab", *made.argv]))
            found.failures.append(f"input {number} of seed {seed} ({kind}): {command} {made.about}\n{fault}")
        else:
            (found.refused if ended.code else found.succeeded)[kind] += 1
        if log is not None:
            with log.open("a") as stream:
                held = {"number": number, "kind": kind, "code": ended.code}
                held |= {"argv": list(map(str, made.argv)), "said": ended.said[-600:], "fault": bool(fault)}
                stream.write(json.dumps(held) + "\n")
                if fault:
                    log.with_suffix(".faults").open("a").write(found.failures[-1] + "\n\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--input", type=int)
    parser.add_argument("--kind")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--folder", type=Path, help="where sound files are kept for the next time")
    given = parser.parse_args()
    numbers = [given.input] if given.input is not None else range(given.first, given.first + given.count)
    if given.kind:
        numbers = [number for number in numbers if drawn(given.seed, number)[0] == given.kind]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        found = tally(folder, numbers, seed=given.seed, log=given.log)
    for failure in found.failures:
        print(failure, "\n")
    print(found.table())


if __name__ == "__main__":
    main()
