"""One model over two processes: tokens a second, memory of a process, and bytes on the wire.

The same steps of two parts by 2 processes with 1 thread, 1 with 2 and 1 with 1, in interleaved rounds;
memory is what a process holds at the most in a step, beyond what it held before there was a model; bytes are
those of the loopback device, so nothing else may use it meanwhile.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from attnlab.config.values import Choice
from attnlab.training.strategies import strategy_of
from attnlab.training.strategies.launcher import environment_of
from attnlab.training.strategies.processes import current
from benchmarks import training
from benchmarks.measure import high_water, resident, row

PARTS, STEPS, ROUNDS = 2, 6, 3
WAYS = {"2 x 1": (2, 1, "ddp"), "1 x 2": (1, 2, "ddp"), "1 x 1": (1, 1, "ddp"), "fsdp": (2, 1, "fsdp")}


def rows() -> list[dict[str, object]]:
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, way in WAYS.items():
            measured[name].append(run(*way))

    def median(name: str, what: str) -> float:
        return statistics.median(one[what] for one in measured[name])

    rates = {name: median(name, "rate") for name in WAYS}
    shown = ", ".join(f"{name} {rate:,.0f} tokens/s" for name, rate in rates.items())
    memory = {name: median(name, "memory") for name in ("2 x 1", "fsdp")}
    sent = {name: median(name, "sent") for name in ("2 x 1", "fsdp")}
    size = median("2 x 1", "weights")
    # on a CPU the exchange takes the cores that compute, so nothing of it is hidden (docs/scale.md)
    step, expected = median("2 x 1", "step"), median("1 x 1", "step") / 2 + median("2 x 1", "exchange")
    threads, alone = rates["2 x 1"] / rates["1 x 2"], rates["2 x 1"] / rates["1 x 1"]
    return [
        row("2 processes x 1 thread, rate of 1 x 2", threads, "at least 0.9", threads >= 0.9, shown),
        row("2 processes x 1 thread, rate of 1 x 1", alone, "at least 1.5", alone >= 1.5, shown),
        row(
            "a step of 2 processes, of what the cost model expects",
            step / expected,
            "0.8 to 1.25",
            0.8 <= step / expected <= 1.25,
            f"measured {step:.2f} s, expected {expected:.2f} s",
        ),
        row(
            "memory of a process under fsdp, of ddp's",
            memory["fsdp"] / memory["2 x 1"],
            "at most 0.9",
            memory["fsdp"] <= 0.9 * memory["2 x 1"],
            f"fsdp {memory['fsdp']:,.0f} MiB, ddp {memory['2 x 1']:,.0f}, weights {size:,.0f}",
        ),
        row(
            "bytes that a process sends a step under ddp, of the weights'",
            sent["2 x 1"] / size,
            "at most 1.1",
            sent["2 x 1"] <= 1.1 * size,
            f"ddp {sent['2 x 1']:,.1f} MiB, fsdp {sent['fsdp']:,.1f}, weights {size:,.1f}",
        ),
    ]


def run(world: int, threads: int, strategy: str) -> dict[str, float]:
    """What the first of so many processes measured."""
    store: Any = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-m", "benchmarks.processes", strategy]
    started = []
    for rank in range(world):
        told = environment_of(rank, world, store.port, 0) | {"OMP_NUM_THREADS": str(threads)}
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | told))
    said = [process.communicate()[0] for process in started]
    return dict(json.loads(said[0].splitlines()[-1]))


def measure(strategy: str) -> dict[str, float]:
    """Steps of the medium model on random tokens, in this process and its peers."""
    processes, before = current(), resident()
    with tempfile.TemporaryDirectory() as folder:
        loop = training.loop("medium", Path(folder))
        loop.settings = replace(loop.settings, accumulate=PARTS)
        loop.strategy = strategy_of(Choice(strategy), processes)
        loop.processes = processes
        processes.connect(torch.device("cpu"), 300)
        weights = sum(p.numel() * p.element_size() for p in loop.model.parameters())
        loop.spread()
        loop.step()
        processes.meet()
        high_water(anew=True)
        wire, began, tokens = on_the_wire(), time.perf_counter(), loop.state.tokens
        for _ in range(STEPS):
            loop.step()
        seconds, sent = time.perf_counter() - began, on_the_wire() - wire
        processes.meet()
        exchange = exchange_seconds(weights // 4) if processes.world > 1 else 0.0
    return {
        "rate": (loop.state.tokens - tokens) / seconds,
        "memory": (high_water() - before) / 1024,
        "sent": sent / STEPS / processes.world / 2**20,
        "weights": weights / 2**20,
        "step": seconds / STEPS,
        "exchange": exchange,
    }


def exchange_seconds(numbers: int) -> float:
    """Of summing a gradient of so many numbers over the processes, the median of a few."""
    gradient, times = torch.zeros(numbers), []
    for _ in range(5):
        began = time.perf_counter()
        dist.all_reduce(gradient)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def on_the_wire() -> int:
    """Bytes that went through the loopback device until now."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.strip().startswith("lo:"))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
