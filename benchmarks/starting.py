"""How long a person waits: for help and lists, and for the first step of a training."""

from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attnlab as attnlab_package
from benchmarks.measure import row, wikitext

MAIN = "import sys; from attnlab.cli import main; sys.argv[0] = 'attnlab'; main()"
TEN_MEGABYTES = 10_000_000


def rows() -> list[dict[str, object]]:
    compileall.compile_dir(Path(attnlab_package.__file__).parent, quiet=1)  # as pip does when it installs
    quick = [answered("--help"), answered("list")]
    text = wikitext()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [*quick, *first_steps("the embedded text", (), folder / "embedded", (5, 2))]
        if text is None:
            return found
        file = folder / "ten-megabytes.txt"
        file.write_bytes((text / "train.txt").read_bytes()[:TEN_MEGABYTES])
        of_file = ("--set", f"data.corpus={file}")
        return [*found, *first_steps("a file of 10 MB", of_file, folder / "file", (12, 3))]


def attnlab(*arguments: str, cache: Path | None = None) -> subprocess.Popen[bytes]:
    """The command, begun, with the bytecode that a person's Python keeps."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=kept | ({} if cache is None else {"XDG_CACHE_HOME": str(cache)}),
    )


def answered(*command: str, most: float = 0.3, rounds: int = 7) -> dict[str, object]:
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        assert attnlab(*command).wait() == 0
        times.append(time.perf_counter() - began)
    return _row(f"attnlab {' '.join(command)}", statistics.median(times[1:]), most)


def first_steps(
    text: str, settings: tuple[str, ...], folder: Path, most: tuple[float, float]
) -> list[dict[str, object]]:
    """From the command to its first step: text, tokenizer, checks. The second time the text is known."""
    found = []
    for which, limit in zip(("first", "second"), most, strict=True):
        seconds = until_first_step(settings, folder / which, folder / "cache")
        found.append(
            _row(f"attnlab train mini-gpt to its first step, {text}, the {which} time", seconds, limit)
        )
    return found


def until_first_step(settings: tuple[str, ...], out: Path, cache: Path) -> float:
    """Seconds from the command to its first step, after which it is killed."""
    began = time.perf_counter()
    run = attnlab("train", "mini-gpt", *settings, "--out", str(out), cache=cache)
    while not stepped(out / "metrics.jsonl"):
        assert run.poll() is None, "the run ended before its first step"
        time.sleep(0.005)
    seconds = time.perf_counter() - began
    run.kill()
    run.wait()
    return seconds


def stepped(metrics: Path) -> bool:
    return metrics.exists() and "stepped" in metrics.read_text()


def _row(work: str, seconds: float, most: float) -> dict[str, object]:
    return row(f"{work}, seconds", seconds, f"at most {most}", seconds <= most, f"{seconds:.2f} s")
