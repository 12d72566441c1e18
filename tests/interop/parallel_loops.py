"""A loop of someone's in two processes, sound or with one of the usual faults of such loops."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from attnlab.interop.loop_checks import LoopChecks

V, ROWS, STEPS, BATCH = 20, 240, 15, 8
DEV = 21
"""Of an odd number, so that two processes cannot share it evenly."""


class Mean(nn.Module):
    """A running mean of word vectors, with dropout."""

    def __init__(self, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.table, self.out, self.drop = nn.Embedding(V, 8), nn.Linear(8, V), nn.Dropout(0.1)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, ids):
        steps = torch.arange(1, ids.shape[1] + 1)[:, None]
        return self.out(self.drop(self.table(ids).cumsum(1) / steps))


@dataclass(frozen=True)
class Fault:
    """What a loop does otherwise than it should."""

    wraps: bool = True
    synchronises: bool = True
    sampler_seed: int = 0
    divides: bool = True
    of_means: bool = False
    init_seed: int = 0
    dropped: int = 0
    rng_by_rank: bool = True
    filled: bool = False
    cut: bool = False
    buffer: float = 0.0
    summed: bool = False


def faults(rank: int) -> dict[str, Fault]:
    """By name; what differs between processes does so by `rank`."""
    return {
        "sound": Fault(),
        "summed": Fault(wraps=False, summed=True),
        "not averaged": Fault(wraps=False, synchronises=False),
        "no_sync left on": Fault(synchronises=False),
        "same data": Fault(divides=False),
        "divergent sampler seeds": Fault(sampler_seed=rank),
        "mean of means": Fault(of_means=True),
        "other initialisation": Fault(wraps=False, synchronises=False, init_seed=rank),
        "last batch dropped": Fault(wraps=False, synchronises=False, dropped=rank, of_means=True),
        "same dropout": Fault(rng_by_rank=False),
        "filled": Fault(filled=True),
        "cut": Fault(cut=True),
        "buffers": Fault(wraps=False, summed=True, buffer=float(rank)),
    }


def texts() -> list[torch.Tensor]:
    """Rows of different lengths, a tenth of them twice."""
    drawn = torch.Generator().manual_seed(7)
    lengths = torch.randint(4, 12, (ROWS,), generator=drawn)
    rows = [torch.randint(V, (int(n),), generator=drawn) for n in lengths]
    return rows[: ROWS - ROWS // 10] + rows[: ROWS // 10]


def padded(rows: list[torch.Tensor]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)


def loop(checks: LoopChecks, fault: Fault) -> None:
    """A few steps and an evaluation, as a person would write them."""
    rank, count = dist.get_rank(), dist.get_world_size()
    model: nn.Module = Mean(fault.init_seed)
    model.seen.fill_(fault.buffer)
    torch.manual_seed(rank if fault.rng_by_rank else 1)
    wrapped = DistributedDataParallel(model) if fault.wraps else model
    checks.before(model, data={"dev": list(range(DEV))})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = texts()
    sampler = DistributedSampler(
        rows,
        num_replicas=count if fault.divides else 1,
        rank=rank if fault.divides else 0,
        seed=fault.sampler_seed,
    )
    order = list(sampler)
    batches = [order[n : n + BATCH] for n in range(0, STEPS * BATCH * 2, BATCH)][: STEPS - fault.dropped]
    for batch in batches:
        ids = padded([rows[n] for n in batch])
        targets = ids[:, 1:]
        number = torch.tensor(float(targets.numel()))
        if not fault.of_means:
            dist.all_reduce(number)
            number /= count
        quiet = wrapped.no_sync() if fault.wraps and not fault.synchronises else nullcontext()
        with quiet:
            loss = F.cross_entropy(wrapped(ids)[:, :-1].flatten(0, 1), targets.flatten(), reduction="sum")
            (loss / number).backward()
        if fault.summed:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        checks.stepping()
        optimizer.step()
        optimizer.zero_grad()
    odd = fault.filled or (rank == 0 and not fault.cut)  # who scores the one that is left over
    labels = [f"{rank}-{n}" for n in range(DEV // 2 + odd)]
    checks.evaluated(len(batches), labels=labels, predicted=labels)
    checks.finish(len(batches))


def all_loops(rank: int, folder: str, names: tuple[str, ...]) -> None:
    """Each of the named loops, one after the other, in this process of two."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            checks = LoopChecks(Path(folder) / name, vocabulary=V, mask="causal")
            loop(checks, faults(rank)[name])
            dist.barrier()
    dist.destroy_process_group()


def sound_loop(checks: LoopChecks) -> None:
    loop(checks, faults(dist.get_rank())["sound"])


def loop_with_equal_data(checks: LoopChecks) -> None:
    loop(checks, faults(dist.get_rank())["same data"])
