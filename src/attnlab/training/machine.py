"""The machine: which device, its precision, and the peak of its matrix product."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from attnlab import __version__
from attnlab.config.values import ConfigError
from attnlab.data.workers import cores as cores
from attnlab.model.blocks import Block
from attnlab.model.products import faster_products, linear_map


def device_of(name: str, *, local_rank: int = 0, processes: int = 1) -> torch.device:
    """The device of a name; `best` is the first accelerator that is there, else the CPU. Of several processes
    on a machine, each has a CUDA device of its own."""
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "best":
        name = next(kind for kind, there_is in there.items() if there_is)
    if not there[name]:
        raise ConfigError(f'training.device is "{name}", which is not here; use "best" or "cpu".')
    if name == "cuda" and processes > 1:
        if local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"There are {torch.cuda.device_count()} CUDA devices here, and process {local_rank} of this "
                'machine needs one of its own; start fewer processes, or set training.device = "cpu".'
            )
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    return torch.device(name)


def autocast_of(precision: str, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    """The context in which a forward runs."""
    if precision == "float32":
        return contextlib.nullcontext
    return partial(torch.autocast, device.type, dtype=torch.bfloat16)


def recompute_blocks(model: nn.Module) -> None:
    """Gradient checkpointing: keep each block's input alone, and compute the rest again for the backward."""
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if not blocks:
        raise ConfigError(
            "training.gradient_checkpointing computes blocks again, and this model's trunk has none; "
            "set it to false."
        )
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]


FLOPS_A_THREAD = 5e10
"""Operations of a step below which another thread waits for the first more than it helps: about a second of
one core. On a machine that is busy with something else, waiting costs several times the step."""


def threads_for_step(flops: float, *, processes: int = 1) -> int:
    """The threads of each of so many processes on a machine, by the size of its steps: the same on an idle
    machine and on a busy one, since other threads round otherwise."""
    return int(min(max(1, cores() // processes), max(1, flops // FLOPS_A_THREAD)))


COPIED = 50_000_000
"""Parameters of a model of which each of several processes may hold a copy in float64."""


def probe_processes(model: nn.Module) -> int:
    """How many processes may ask a model at once, with one thread each: what a few tokens take is too little
    for two threads, which on a busy machine wait for each other. One where the model is large or on an
    accelerator, or where OMP_NUM_THREADS says that the other cores are for others."""
    parameters = list(model.parameters())
    there = all(parameter.device.type == "cpu" for parameter in parameters)
    small = sum(parameter.numel() for parameter in parameters) <= COPIED
    return cores() if there and small and "OMP_NUM_THREADS" not in os.environ else 1


def peak_flops(device: torch.device, *, size: int = 1024, rounds: int = 4) -> float:
    """Operations per second of a float32 matrix product here, the best of a few."""
    a = torch.ones(size, size, device=device)
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        float(linear_map(a, a)[0, 0])  # asking for a number waits for the device
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def versions() -> dict[str, Any]:
    """What a run's bits depend on, beside its config."""
    return {
        "attnlab": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "products": faster_products(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds that the threads of this process ran, and that they waited for a processor that others had.

    Together they show a busy machine, whatever the number of threads: on a quiet one nothing waits. The
    system tells of each thread that lives; where it does not tell, nothing is known.
    """

    threads: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def now(cls) -> ProcessorTime:
        threads = {}
        with suppress(OSError, ValueError):
            for place in Path("/proc/self/task").iterdir():
                with suppress(OSError):  # it has just ended
                    ran, waited, _ = (place / "schedstat").read_text().split()
                    threads[place.name] = int(ran) / 1e9, int(waited) / 1e9
        return cls(threads)

    def since(self, before: ProcessorTime) -> dict[str, float]:
        """For run.json: what was added since then; nothing where the system does not tell."""
        if not self.threads:
            return {}
        ends = [(times, before.threads.get(name, (0.0, 0.0))) for name, times in self.threads.items()]
        sums = [sum(now[which] - then[which] for now, then in ends) for which in (0, 1)]
        return {"ran": sums[0], "waited": sums[1]}


def return_freed_memory() -> None:
    """Give the system what was freed: glibc keeps it, in pieces between others that are in use."""
    with suppress(AttributeError, OSError, TypeError):  # of other libraries and systems
        ctypes.CDLL(None).malloc_trim(0)
