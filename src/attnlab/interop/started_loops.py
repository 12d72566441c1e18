"""A training loop in processes of this machine, started to be checked."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from attnlab.interop.loop_checks import LoopChecks
from attnlab.runs.findings import Finding, read_findings


def findings_in_processes(loop: Callable[[LoopChecks], None], count: int) -> list[Finding]:
    """What the checks find that a loop is given in each of several processes, which are started here."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_in_process, (loop, count, folder), nprocs=count)
        return read_findings(Path(folder))


def _in_process(rank: int, loop: Callable[[LoopChecks], None], count: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is found is told by the one who asked
        loop(LoopChecks(folder))
    dist.destroy_process_group()
