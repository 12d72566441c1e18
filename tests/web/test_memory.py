"""What a server keeps of a run that goes on for an hour while others look."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time

import pytest

from attnlab.web.worker_pool import resident_bytes
from tests.web.serving import server, until

STEPS, EVERY, VIEWERS = 36_000, 600, 10
"""An hour at ten steps a second."""
MOST = 24 << 20
"""Bytes that a server may hold more afterwards: less than what it was told, many times over."""


def events(begun, end):
    """Lines of metrics.jsonl; each evaluation has new samples in its scores' place."""
    for number in range(begun, end):
        step = {"event": "stepped", "step": number, "loss": 9 / number**0.1, "learning_rate": 1e-3}
        step |= {"gradient": 1.0, "tokens": 3200, "flops": 10**9, "seconds": 0.1, "epoch": 0.1}
        yield json.dumps(step | {"progress": number / (2 * STEPS), "parts": {}})
        if number % 100 == 0:
            scored = {"event": "evaluated", "step": number, "loss": 9 / number**0.1, "scores": {}}
            yield json.dumps(scored | {"seconds": 1.0, "counts": {}, "best": True, "signatures": []})


@pytest.mark.slow
def test_memory_is_flat_over_an_hour_of_events(served, tmp_path):
    run = tmp_path / "runs" / "long"
    shutil.copytree(served / "causal", run)
    record = json.loads((run / "run.json").read_text()) | {"status": "running"}
    (run / "run.json").write_text(json.dumps(record))
    (run / "result.json").unlink(missing_ok=True)
    (run / "metrics.jsonl").write_text("")
    with (run / "lock").open("w") as lock, server(tmp_path / "runs") as page:
        lock.write(str(os.getpid()))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in ("/", "/runs/long"):
            assert page.ask(path).status == 200
        told = [0] * VIEWERS
        over = threading.Event()

        def look(place):
            for _ in page.events("/events/home" if place % 2 else "/events/runs/long", timeout=60):
                told[place] += 1
                if over.is_set():
                    return

        viewers = [threading.Thread(target=look, args=(place,), daemon=True) for place in range(VIEWERS)]
        for viewer in viewers:
            viewer.start()
        with (run / "metrics.jsonl").open("a") as file:
            sizes = []
            for begun in range(1, STEPS, EVERY):
                file.write("".join(f"{line}\n" for line in events(begun, begun + EVERY)))
                file.flush()
                time.sleep(0.5)
                sizes.append(resident_bytes(page.process.pid))
            warm = len(sizes) // 4  # its own figures and templates are there by then
            until(lambda: f"{STEPS:,} steps" in page.ask("/runs/long").text, 60)
            over.set()
            file.write("".join(f"{line}\n" for line in events(STEPS + 1, STEPS + 2)))
            file.flush()
        for viewer in viewers:
            viewer.join(30)
        grown = resident_bytes(page.process.pid) - sizes[warm]
    assert min(told) > 10, told
    assert grown < MOST, f"{grown / 2**20:.1f} MB more; by quarters: {sizes[:: max(1, warm)]}"
