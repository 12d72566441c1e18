"""What a run was really given: hashes of its first weights, its batches and its random draws.

Settings and seeds say what should have decided these; only what arrived at the model shows whether
seeds changed anything, and whether arms shared what they claim to share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.data.batch import Batch
from attnlab.model.draws import seed_everything
from attnlab.tasks.task import Prepared

SIZE = 8
"""Bytes of a hash: with a million of them, two are equal by chance once in ten million."""


@dataclass(frozen=True)
class Trail:
    """A running hash over things in their order, with its value after 1, 2, 4, 8, … of them.

    So two runs of different length are compared over what they have in common. A run that was
    begun before trails were kept has no `complete` one.
    """

    count: int = 0
    last: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True

    def add(self, *things: bytes) -> Trail:
        """The trail with each of these things after the others."""
        count, last, marks = self.count, self.last, dict(self.marks)
        for thing in things:
            count, last = count + 1, digest(last.encode(), thing)
            if count & (count - 1) == 0:
                marks[str(count)] = last
        return replace(self, count=count, last=last, marks=marks)

    @property
    def record(self) -> dict[str, Any] | None:
        """For run.json: the hash after each count that was marked, and after the last; None if unknown."""
        if not self.complete:
            return None
        return {**self.marks, **({str(self.count): self.last} if self.count else {})}


@dataclass(frozen=True)
class Trace:
    """`batches` are those of the loader, `inputs` what the task made of them for the model.

    `draws` has the state of the random generator before each batch that drew from it, as dropout does: the
    seed decides it. `drawn` has the state after it: what was really drawn decides that too, such as how many
    numbers, or a part that seeds the generator itself.
    """

    batches: Trail = Trail()
    inputs: Trail = Trail()
    draws: Trail = Trail()
    drawn: Trail = Trail()

    @classmethod
    def of(cls, record: Mapping[str, Any] | None) -> Trace:
        """From a checkpoint, which may have been written before there was a trace, or all of its trails."""
        trails = {} if record is None else record
        unknown = {"complete": False}
        return cls(**{field.name: Trail(**trails.get(field.name, unknown)) for field in fields(cls)})

    @property
    def record(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name).record for field in fields(self)}


def digest(*parts: bytes) -> str:
    made = hashlib.blake2b(digest_size=SIZE)
    for part in parts:
        made.update(part)
    return made.hexdigest()


def content(tensor: Tensor) -> bytes:
    """A tensor's type, shape and values."""
    plain = tensor.detach().cpu().contiguous()
    values = plain.flatten().view(torch.uint8).numpy().tobytes()
    return f"{plain.dtype}{tuple(plain.shape)}".encode() + values


def batch_content(batch: Batch) -> bytes:
    """All that a batch holds; the numbers of its rows aside, which no model reads."""
    columns = {name: column for name, column in batch.columns.items() if name != "rows"}
    return b"".join(name.encode() + content(column) for name, column in columns.items())


def input_content(prepared: Prepared) -> bytes:
    """What the model reads, and what it is to predict."""
    names = "ids", "targets", "source", "types", "second", "vectors"
    tensors = (getattr(prepared, name) for name in names)
    return b"".join(content(column) for column in tensors if column is not None)


@contextmanager
def seeded(seed: int, device: torch.device, drawn: list[tuple[bytes, bytes]]) -> Iterator[None]:
    """Seed what dropout draws from; adds the states that the draws began and ended at, if there were any."""
    seed_everything(seed)
    before = generator_state(device)
    yield
    after = generator_state(device)
    if after != before:
        drawn.append((before, after))


def generator_state(device: torch.device) -> bytes:
    """The state of the generator that dropout on this device draws from."""
    source: Any = torch if device.type == "cpu" else torch.get_device_module(device)
    state: Tensor = source.get_rng_state()
    return state.cpu().numpy().tobytes()


def weight_hashes(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """A hash of each tensor, or of the part of it that this process has: equal for equal weights."""
    return {name: digest(content(local_part(tensor))) for name, tensor in weights.items()}


def local_part(tensor: Tensor) -> Tensor:
    """What this process has of a tensor."""
    local: Callable[[], Tensor] | None = getattr(tensor, "to_local", None)
    return tensor if local is None else local()


def initial_weights(model: nn.Module) -> dict[str, str]:
    """Each parameter in a few words: "16x48 VALUES SIGNS", or "16 = 1.0" where all values are equal,
    or "48 = 0.0 and 1.0, VALUES" where they are nothing else.

    VALUES is a hash of the values, SIGNS of their signs alone: a part that is scaled, as a deeper
    model scales its residuals, was drawn from the same numbers.
    """
    return {name: weight_summary(parameter.detach().cpu()) for name, parameter in model.named_parameters()}


def weight_summary(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    low, high = tensor.aminmax()
    if low == high:
        return f"{shape} = {float(low)}"
    if bool(((tensor == 0) | (tensor == 1)).all()):  # a bias that opens one gate
        return f"{shape} = 0.0 and 1.0, {digest(content(tensor))}"
    return f"{shape} {digest(content(tensor))} {digest(content(tensor < 0))}"
