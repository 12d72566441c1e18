"""The dev loss: always the same batches with the same masking, on a stream of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch
from attnlab.data.rows import Rows
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.tasks.task import Prepared, Task

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Evaluation:
    """`loss` in nats per target, and what follows; perplexity from the words alone, if it has parts."""

    loss: float
    scores: Mapping[str, float]


class Batches(Protocol):
    """Where an evaluation's batches come from: a loader, or a few batches of one."""

    @property
    def rows(self) -> Rows: ...

    def plan(self, epoch: int) -> Sized: ...

    def load(self, plan: Any, number: int) -> Batch: ...


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """How a model is scored on a split: which batches, what they hide, where, in what precision."""

    model: Model
    task: Task
    loader: Batches
    seed: int
    batches: int | Literal["all"] = "all"
    device: torch.device = CPU
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext

    def __call__(self) -> Evaluation:
        """The mean loss over the batches, in eval mode."""
        total, words, count, size, parts = 0.0, 0.0, 0, 0, dict[str, float]()
        for _, prepared, loss in self.losses():
            total, count, size = total + float(loss.total), count + int(loss.count), size + prepared.bytes
            words += float(loss.of_words.total)
            for name, part in loss.parts.items():
                parts[name] = parts.get(name, 0.0) + float(part)
        scores = {name: part / max(1, count) for name, part in parts.items()}
        scores |= {"perplexity": math.exp(min(words / max(1, count), 700.0)), "targets": count}
        if size:
            scores["bits_per_byte"] = words / math.log(2) / size
        return Evaluation(total / max(1, count), scores)

    def losses(self) -> Iterator[tuple[Batch, Prepared, LossSum]]:
        """Each of the first batches of the first epoch, what the task made of it, and its loss."""
        plan = self.loader.plan(0)
        numbers = itertools.islice(range(len(plan)), None if self.batches == "all" else self.batches)
        with judging(self.model):
            for number in numbers:
                batch = self.loader.load(plan, number)
                yield batch, *self.loss(batch, number)

    @torch.no_grad()
    def loss(self, batch: Batch, number: int) -> tuple[Prepared, LossSum]:
        """What the task makes of batch `number`, and its loss."""
        prepared = self.prepare(batch, number)
        with self.autocast():
            return prepared, self.task.loss(self.model, prepared.to(self.device))

    def prepare(self, batch: Batch, number: int) -> Prepared:
        return self.task.prepare(batch, stream_seed(self.seed, "evaluation", number))


@contextmanager
def judging(model: Model) -> Iterator[None]:
    """The model in eval mode, and afterwards in the mode it was in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
