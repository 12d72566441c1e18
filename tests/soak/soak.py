"""Thousands of inputs that may be wrong, each answered: done, or refused in a sentence.

Repeat one: `python -m tests.soak.soak --input 1234`. Many: `python -m tests.soak.soak --count 10000`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.commands import Commands, Ended
from tests.soak import sound
from tests.soak.inputs import KINDS, Input

SECONDS, GIBIBYTES = 60, 6
"""Of processor time and memory that an input may take: what is sound takes two and less than one."""
LONGEST = 2000
"""Characters that a refusal may have."""


@dataclass
class Tally:
    """What came of the inputs, by kind."""

    succeeded: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    def table(self) -> str:
        kinds = sorted({*self.succeeded, *self.refused, *self.seconds})
        lines = [
            f"{kind}: {self.succeeded[kind] + self.refused[kind]} answered, {self.refused[kind]} refused, "
            f"{self.seconds[kind]:.0f} s"
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
    if ended.code == 2 and len(ended.said) > LONGEST:
        return f"said {len(ended.said)} characters: {ended.said[:1000]}"
    return ""


def tried(attnlab: Commands, made: Input) -> Ended:
    chosen = {"call": f"tests.soak.calls:{made.call}"} if made.call else {}
    return attnlab(*made.argv, seconds=SECONDS, gibibytes=GIBIBYTES, strict=True, **chosen)


def soak(
    folder: Path, numbers: Iterable[int], *, seed: int = 0
) -> Iterator[tuple[int, str, Input, Ended, float]]:
    """Try inputs by their numbers, one after the other."""
    attnlab = Commands(folder)
    try:
        base = sound.make(folder / "sound", attnlab)
        for number in numbers:
            kind, pick = drawn(seed, number)
            work = Path(tempfile.mkdtemp(dir=folder))
            made = KINDS[kind][1](pick, base, work)
            began = time.perf_counter()
            ended = tried(attnlab, made)
            yield number, kind, made, ended, time.perf_counter() - began
            shutil.rmtree(work)
    finally:
        attnlab.close()


def tally(folder: Path, numbers: Iterable[int], *, seed: int = 0, log: Path | None = None) -> Tally:
    found = Tally()
    for number, kind, made, ended, seconds in soak(folder, numbers, seed=seed):
        fault = fault_of(ended)
        found.seconds[kind] += seconds
        if fault:
            command = shlex.join(map(str, [made.call or "attnlab", *made.argv]))
            found.failures.append(f"input {number} of seed {seed} ({kind}): {command} {made.about}\n{fault}")
        else:
            (found.refused if ended.code else found.succeeded)[kind] += 1
        if log is not None:
            with log.open("a") as stream:
                held = {"number": number, "kind": kind, "code": ended.code, "seconds": round(seconds, 2)}
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
