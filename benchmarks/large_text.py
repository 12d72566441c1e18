"""A text of 300 MB: how long until it is inspected, until the first step, and how long its checks take.

From WikiText-2 (WIKITEXT2), again and again with one word in twelve exchanged, so that copies differ.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from pathlib import Path

from benchmarks.measure import row, wikitext
from benchmarks.starting import attnlab, until_first_step

SIZE = 300_000_000
EXCHANGED = 12


def rows() -> list[dict[str, object]]:
    text = wikitext()
    if text is None:
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = varied(text / "train.txt", folder / "large.txt")
        return [inspection(file, folder), *first_step(file, folder)]


def varied(source: Path, file: Path, size: int = SIZE) -> Path:
    """A text of this size from a small one, always the same."""
    pick = random.Random(0)
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    known = [word for line in lines for word in line.split()]
    with file.open("w", encoding="utf-8") as stream:
        while stream.tell() < size:
            for line in lines:
                words = line.split(" ")
                if len(words) > 3:
                    for place in pick.choices(range(1, len(words) - 1), k=len(words) // EXCHANGED + 1):
                        words[place] = pick.choice(known)
                stream.write(" ".join(words))
    return file


def inspection(file: Path, folder: Path) -> dict[str, object]:
    began = time.perf_counter()
    process = attnlab("data", "inspect", str(file), cache=folder / "inspected")
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    seconds, megabytes = time.perf_counter() - began, used.ru_maxrss / 1024
    detail = f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor, {megabytes:.0f} MiB"
    return row("attnlab data inspect, 300 MB, seconds", seconds, "–", True, detail)


def first_step(file: Path, folder: Path) -> list[dict[str, object]]:
    out = folder / "run"
    seconds = until_first_step(("--set", f"data.corpus={file}"), out, folder / "trained")
    events = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    checks = next(float(event["seconds"]) for event in events if event["event"] == "checked")
    return [
        row(
            "attnlab train mini-gpt to its first step, 300 MB, seconds",
            seconds,
            "–",
            True,
            f"{seconds:.0f} s",
        ),
        row("its checks before the first step, seconds", checks, "at most 5", checks <= 5, f"{checks:.1f} s"),
    ]
