"""The page: how soon 1,000 runs are shown, how it answers under load, and what it costs a training."""

from __future__ import annotations

import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.measure import row

AGED = 1.2
"""Seconds after which a list is not shown again as it was."""
RUNS, VIEWERS, RATE, SECONDS, TURNS = 1_000, 100, 50, 6, 20
TINY = ("model.layers=2", "model.width=64", "training.evaluate_every=1000000", "training.budget.epochs=1000")


def rows() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "runs"
        first = root / "run-0"
        train(first, "training.budget.steps=20")
        for number in range(1, RUNS):
            copy_run(first, root / f"run-{number}")
        with served(root) as (port, server):
            listed = home(port, first / "run.json")
            with live_training(root / "live") as folder:
                ask(port, "/runs/live")
                return [listed, answered(port), slowed(port, server, folder)]


def train(folder: Path, *settings: str) -> None:
    words = [word for one in (*TINY, *settings) for word in ("--set", one)]
    subprocess.run(
        [sys.executable, "-m", "attnlab", "train", "mini-gpt", *words, "--out", str(folder)],
        check=True,
        capture_output=True,
    )


def copy_run(run: Path, to: Path) -> None:
    """Its records alone: checkpoints are not read by the list."""
    to.mkdir()
    for name in ("run.json", "metrics.jsonl", "checks.json", "samples.txt"):
        shutil.copy(run / name, to / name)


@contextmanager
def served(root: Path) -> Iterator[tuple[int, psutil.Process]]:
    """The port of a server of that folder, and its process."""
    command = [sys.executable, "-m", "attnlab", "serve", str(root), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        ask(port, "/")
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(20)


def ask(port: int, path: str) -> float:
    """Seconds until an answer is there, whole."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return time.perf_counter() - began


def home(port: int, record: Path) -> dict[str, object]:
    """The list after a run has changed, when no page that was made before may be shown."""
    known, anew = [], []
    for _ in range(9):
        record.touch()
        time.sleep(AGED)
        anew.append(ask(port, "/"))
        known.append(ask(port, "/"))
    seconds = statistics.median(anew)
    return row(
        f"the page's list of {RUNS:,} runs, seconds",
        seconds,
        "at most 0.3",
        seconds <= 0.3,
        f"made anew {seconds:.3f} s, shown again {statistics.median(known):.3f} s",
    )


@contextmanager
def live_training(folder: Path) -> Iterator[Path]:
    """A run that trains on one thread, from its fifth step on."""
    words = [word for one in TINY for word in ("--set", one)]
    command = [sys.executable, "-m", "attnlab", "train", "mini-gpt", *words, "--out", str(folder)]
    training = subprocess.Popen(
        [*command, "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while steps(folder) < 5:
            time.sleep(0.2)
            assert training.poll() is None, "the training ended"
        yield folder
    finally:
        training.terminate()
        training.wait(60)


def answered(port: int) -> dict[str, object]:
    """How soon requests are answered that come at a fixed rate."""
    times = list[float]()
    for _ in range(3):
        with viewers(port):
            times += requests(port)
    slowest = statistics.quantiles(times, n=100)[98]
    return row(
        f"the page, p99 of {RATE} requests a second beside {VIEWERS} viewers, seconds",
        slowest,
        "at most 0.2",
        slowest <= 0.2,
        f"median {statistics.median(times) * 1000:.0f} ms, p99 {slowest * 1000:.0f} ms, n = {len(times)}",
    )


def slowed(port: int, server: psutil.Process, folder: Path) -> dict[str, object]:
    """The rate of training with viewers against that before and after, and the server's share of a core."""
    shares, busy = list[float](), list[float]()
    for _ in range(TURNS):
        before = rate(folder)
        with viewers(port):
            began = processor_seconds(server)
            watched = rate(folder)
            busy.append((processor_seconds(server) - began) / SECONDS)
        shares.append(100 * (1 - 2 * watched / (before + rate(folder))))
    mean, half = statistics.fmean(shares), 2.1 * statistics.stdev(shares) / TURNS**0.5
    return row(
        f"the page, training slowed by {VIEWERS} viewers, %",
        mean,
        "below 3",
        mean < 3,
        f"mean of {TURNS} turns of {SECONDS} s with and without, 95% from {mean - half:.1f} to "
        f"{mean + half:.1f}; the server takes {100 * statistics.median(busy):.1f}% of a core",
    )


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def steps(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return file.read_text().count('"event": "stepped"') if file.exists() else 0


def rate(folder: Path) -> float:
    """Tokens a second of the steps of some seconds, by their own clock: without saving in between."""
    file = folder / "metrics.jsonl"
    before = file.stat().st_size
    time.sleep(SECONDS)
    lines = file.read_bytes()[before:].splitlines()[1:-1]
    taken = [event for event in map(json.loads, lines) if event["event"] == "stepped"]
    return sum(event["tokens"] for event in taken) / sum(event["seconds"] for event in taken)


@contextmanager
def viewers(port: int) -> Iterator[None]:
    """So many who look at the run that trains."""
    streams = []
    for _ in range(VIEWERS):
        stream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stream.request("GET", "/events/runs/live")
        streams.append((stream, stream.getresponse()))
    stopped = threading.Event()

    def read() -> None:
        import select

        sockets = {answer.fp.fileno(): answer for _, answer in streams if answer.fp is not None}
        while not stopped.is_set():
            ready, _, _ = select.select(list(sockets), [], [], 0.2)
            for number in ready:
                sockets[number].read1(1 << 16)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        stopped.set()
        reader.join()
        for stream, _ in streams:
            stream.close()


def requests(port: int) -> list[float]:
    """Answers of the list, the run and the API, so many a second whether or not the last has come."""
    times, threads = list[float](), []
    paths = ("/", "/runs/live", "/api/runs", "/static/live.js", "/runs/run-1")

    def one(path: str) -> None:
        times.append(ask(port, path))

    for number in range(RATE * SECONDS):
        thread = threading.Thread(target=one, args=(paths[number % len(paths)],))
        thread.start()
        threads.append(thread)
        time.sleep(1 / RATE)
    for thread in threads:
        thread.join()
    return times
