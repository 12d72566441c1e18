"""One model over several processes: tokens a second, memory of a process, and bytes on the wire.

The same steps of two parts by 2 processes with 1 thread, 1 with 2 and 1 with 1, in interleaved rounds;
memory is what a process holds at the most in a step, beyond what it held before there was a model; bytes are
those of the loopback device, so nothing else may use it meanwhile: on a busy machine, begin with
`unshare -n sh -c 'ip link set lo up; …'`.
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

from attnlab.training.strategies import STRATEGIES, strategy_of
from attnlab.training.strategies.launcher import environment_of
from attnlab.training.strategies.own_processes import current
from benchmarks import training
from benchmarks.measure import high_water, resident, row
from benchmarks.scale_model import Model, ddp_bytes, fsdp_bytes
from benchmarks.training import WORK

PARTS, STEPS, ROUNDS = 2, 6, 3
SENDING = [(2, "ddp"), (4, "ddp"), (2, "fsdp"), (4, "fsdp"), (4, "fsdp(replicas=2)")]
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
    size = median("2 x 1", "weights")
    # on a CPU the exchange takes the cores that compute, so nothing of it is hidden (docs/scale.md)
    step, expected = median("2 x 1", "step"), median("1 x 1", "step") / 2 + median("2 x 1", "exchange")
    work = median("2 x 1", "processor") / median("1 x 1", "processor")
    threads, alone = rates["2 x 1"] / rates["1 x 2"], rates["2 x 1"] / rates["1 x 1"]
    return [
        row("2 processes x 1 thread, rate of 1 x 2", threads, "at least 0.9", threads >= 0.9, shown),
        row("2 processes x 1 thread, rate of 1 x 1", alone, "at least 1.5", alone >= 1.5, shown),
        row(
            "processor time of a step by 2 processes together, of 1 x 1",
            work,
            "at most 1.15",
            work <= 1.15,
            f"{median('2 x 1', 'processor'):.2f} s, which a busy machine changes little",
        ),
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
        *(bytes_row(world, strategy) for world, strategy in SENDING),
    ]


def bytes_row(world: int, strategy: str) -> dict[str, object]:
    """What a process sends in a step of one part for each, against the formula."""
    found = run(world, 1, strategy, size="small", parts=world, steps=2)
    chosen = STRATEGIES.resolve(strategy)
    model = Model("small", found["weights"] * 2**20 / 4, WORK["small"][0]["layers"], weight_bytes=4)
    replicas = int(chosen.options.get("replicas", 1))
    in_parts = fsdp_bytes(model, world, 1, replicas=replicas, sums=2)
    expected = ddp_bytes(model, world) if strategy == "ddp" else in_parts
    ratio = found["sent"] * 2**20 / expected
    return row(
        f"bytes of a step that each of {world} processes sends under {strategy}, of what the formula expects",
        ratio,
        "0.95 to 1.05",
        0.95 <= ratio <= 1.05,
        f"{found['sent']:,.1f} MiB, weights {found['weights']:,.1f}",
    )


def run(
    world: int, threads: int, strategy: str, *, size: str = "medium", parts: int = PARTS, steps: int = STEPS
) -> dict[str, float]:
    """What the first of so many processes measured."""
    store: Any = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-m", "benchmarks.processes", strategy, size, str(parts), str(steps)]
    started = []
    for rank in range(world):
        told = environment_of(rank, world, store.port, 0) | {"OMP_NUM_THREADS": str(threads)}
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | told))
    said = [process.communicate()[0] for process in started]
    return dict(json.loads(said[0].splitlines()[-1]))


def measure(strategy: str, size: str, parts: int, steps: int) -> dict[str, float]:
    """Steps of a model on random tokens, in this process and its peers."""
    processes, before = current(), resident()
    with tempfile.TemporaryDirectory() as folder:
        loop = training.loop(size, Path(folder))
        loop.settings = replace(loop.settings, accumulate=parts)
        loop.strategy = strategy_of(STRATEGIES.resolve(strategy), processes)
        loop.processes = processes
        processes.connect(torch.device("cpu"), 300)
        weights = sum(p.numel() * p.element_size() for p in loop.model.parameters())
        loop.spread()
        loop.step()
        with loop.strategy.whole():  # as for the checks that a run makes of its first step
            processes.meet()
        high_water(anew=True)
        wire, began, tokens = on_the_wire(), time.perf_counter(), loop.state.tokens
        worked = time.process_time()
        for _ in range(steps):
            loop.step()
        seconds, sent = time.perf_counter() - began, on_the_wire() - wire
        worked = time.process_time() - worked
        processes.meet()
        exchange = exchange_seconds(weights // 4) if processes.world > 1 else 0.0
    return {
        "rate": (loop.state.tokens - tokens) / seconds,
        "memory": (high_water() - before) / 1024,
        "sent": sent / steps / processes.world / 2**20,
        "weights": weights / 2**20,
        "step": seconds / steps,
        "processor": worked * processes.world / steps,
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
    print(json.dumps(measure(*sys.argv[1:3], *map(int, sys.argv[3:]))))
