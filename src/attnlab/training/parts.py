"""A step is its parts: what became of each, whichever process took it."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.data.batch import Batch
from attnlab.tasks.task import Prepared
from attnlab.training.trace import Trace, batch_content, input_content


@dataclass(frozen=True)
class PartFacts:
    """One batch of a step: the process that took it, its encoded rows, and what it counted."""

    rank: int
    rows: tuple[int, ...]
    targets: int
    tokens: int
    flops: int


@dataclass(frozen=True)
class PartContent:
    """What a part was really given: its batch, what the task made of it, and the states of the generator
    before and after it, where it drew from it."""

    batch: bytes
    inputs: bytes
    drawn: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, batch: Batch, prepared: Prepared, drawn: list[tuple[bytes, bytes]]) -> PartContent:
        return cls(batch_content(batch), input_content(prepared), tuple(drawn))


def extended(trace: Trace, parts: list[PartContent]) -> Trace:
    """A trace with these parts after those before."""
    return Trace(
        batches=trace.batches.add(*(part.batch for part in parts)),
        inputs=trace.inputs.add(*(part.inputs for part in parts)),
        draws=trace.draws.add(*(first for part in parts for first, _ in part.drawn)),
        drawn=trace.drawn.add(*(last for part in parts for _, last in part.drawn)),
    )
