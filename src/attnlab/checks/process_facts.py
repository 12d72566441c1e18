"""What one process of many has to say of its training, in records that are small enough to send."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

NUMBERS, TENSORS = 16, 64
"""Numbers of a gradient that are compared, and tensors that they are taken of."""


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """What must be the same in every process: checksums of weights and buffers, the steps taken, and the
    place in the data (epoch and batch), where that is known.

    Weights that are spread over the processes are left out: each is there once.
    """

    weights: str
    buffers: str
    steps: int
    place: tuple[int, int] | None = None

    @classmethod
    def of(cls, model: nn.Module, steps: int) -> ProcessState:
        return cls(
            weights=checksum(dict(model.named_parameters())),
            buffers=checksum(dict(model.named_buffers())),
            steps=steps,
        )


@dataclass(frozen=True, kw_only=True)
class SharedStep:
    """Of a run of ours: the state of each process, and of the last step each part's process and rows, the
    rows that the data's plan has for it, and the states of the random generators that parts drew from."""

    states: tuple[ProcessState, ...]
    parts: tuple[tuple[int, tuple[int, ...]], ...]
    planned: tuple[tuple[int, ...], ...]
    draws: tuple[bytes, ...]


@dataclass(frozen=True)
class BatchWeight:
    """How many targets a batch teaches, and what one of them weighs in the gradient of its process: None
    where that cannot be told."""

    targets: int
    weight: float | None


@dataclass(frozen=True, kw_only=True)
class ProcessReading:
    """What a process read: checksums of its rows, and its batches of each of the first steps."""

    rows: tuple[str, ...]
    steps: tuple[tuple[BatchWeight, ...], ...]


@dataclass(frozen=True, kw_only=True)
class ProcessStep:
    """What a process did in one step, before the optimizer moves.

    `rows` are checksums of the texts that it read, `batches` what it was taught. `own` are some numbers of
    the gradient that it computed itself, `used` the same of the gradient that the optimizer gets; none where
    they cannot be seen. `draws` is the state of its random generator, where the model draws.
    """

    state: ProcessState
    rows: tuple[str, ...]
    batches: tuple[BatchWeight, ...] = ()
    own: tuple[float, ...] = ()
    used: tuple[float, ...] = ()
    draws: str = ""


@dataclass(frozen=True, kw_only=True)
class ProcessScores:
    """Of an evaluation: how many examples a process scored, and a checksum of them and of what was said."""

    state: ProcessState
    scored: int
    content: str


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Equal for the same tensors under the same names, to the bit; sharded ones are left out, and without any
    others there is none."""
    whole = {name: tensor for name, tensor in tensors.items() if not isinstance(tensor, DTensor)}
    content = hashlib.blake2b(digest_size=16)
    for name, tensor in whole.items():
        content.update(name.encode())
        content.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return content.hexdigest() if whole else ""


def row_checksums(ids: Tensor, *others: Tensor | None, real: Tensor | None = None) -> list[str]:
    """One of each row: of its ids where they are real, and of what goes along with them."""
    along = [values for values in others if values is not None and len(values) == len(ids)]
    checksums = []
    for number, row in enumerate(ids.detach().cpu()):
        kept = row if real is None else row[real[number].cpu().bool()]
        content = hashlib.blake2b(kept.contiguous().numpy().tobytes(), digest_size=8)
        for values in along:
            content.update(values[number].detach().cpu().contiguous().numpy().tobytes())
        checksums.append(content.hexdigest())
    return checksums


def watched_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Those whose gradients are compared: some of those that are trained and that every process has whole."""
    trained = [p for p in model.parameters() if p.requires_grad and not isinstance(p, DTensor)]
    return trained[:: max(1, len(trained) // TENSORS)]


def some_numbers(gradient: Tensor) -> Tensor:
    """The same few of a gradient, always."""
    flat = gradient.detach().flatten()
    return flat[:: max(1, flat.numel() // NUMBERS)][:NUMBERS].double().cpu()


def coincidences(rows: Sequence[Sequence[str]]) -> tuple[int, int, float]:
    """Over the rows of each process: how many pairs of equal rows lie in two processes, how many in one, and
    what share of all pairs lie in two. Rows that the data holds several times fall in both alike."""
    counts = [_counted(own) for own in rows]
    inside = sum(n * (n - 1) // 2 for own in counts for n in own.values())
    across = 0
    for first, own in enumerate(counts):
        for other in counts[first + 1 :]:
            across += sum(n * other[row] for row, n in own.items() if row in other)
    sizes = [len(own) for own in rows]
    pairs_inside = sum(n * (n - 1) // 2 for n in sizes)
    pairs = sum(sizes) * (sum(sizes) - 1) // 2
    return across, inside, (pairs - pairs_inside) / max(1, pairs)


def _counted(rows: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    return counts
