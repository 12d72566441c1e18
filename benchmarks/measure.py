"""How a ratio is measured on a shared, noisy machine."""

from __future__ import annotations

import importlib.util
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def interleaved(
    works: dict[str, Callable[[], object]], *, rounds: int = 9, warmups: int = 2
) -> dict[str, float]:
    """The median seconds of each work, measured in turn (A, B, A, B, …), so that noise hits all alike."""
    for work in works.values():
        for _ in range(warmups):
            work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def row(work: str, ratio: float, target: str, met: bool, detail: str) -> dict[str, object]:
    """One line of the results."""
    return {"work": work, "ratio": round(ratio, 2), "target": target, "met": met, "detail": detail}


def peak_gflops(size: int = 1024, rounds: int = 7) -> float:
    """The machine's own matrix-product rate, float32: the yardstick beside every ratio."""
    import torch  # here, since memory is measured in processes that do without

    a, b = torch.randn(size, size), torch.randn(size, size)
    seconds = interleaved({"product": lambda: a @ b}, rounds=rounds)["product"]
    return 2 * size**3 / seconds / 1e9


def high_water(*, anew: bool = False) -> int:
    """Kilobytes that this process has held at the most; `anew` begins to measure again from here."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmHWM")  # the system's other figure also counts what the parent process held


def resident() -> int:
    """Kilobytes that this process holds now."""
    return _status("VmRSS") if STATUS.exists() else high_water()


def _status(name: str) -> int:
    return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if name in line)


STATUS = Path("/proc/self/status")


def nanogpt() -> Any | None:
    """nanoGPT's model.py as a module, from the folder that the variable NANOGPT names."""
    folder = os.environ.get("NANOGPT")
    if not folder:
        return None
    spec = importlib.util.spec_from_file_location("nanogpt_model", Path(folder) / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def wikitext() -> Path | None:
    """The folder with WikiText-2's train.txt and valid.txt, named by the variable WIKITEXT2."""
    folder = os.environ.get("WIKITEXT2")
    return Path(folder) if folder else None
