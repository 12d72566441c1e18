"""The dev loss: always the same batches with the same masking, on a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.rows import Rows
from attnlab.data.sharing import UNSHARED, Sharing, in_order_of_pieces, own_pieces
from attnlab.evaluation.features import FeaturesOf, no_features
from attnlab.evaluation.written_texts import TextWriter, text_scores
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.tasks.task import Prepared, SplitColumns, Task

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Evaluation:
    """`loss` in nats per target, and the task's metrics; perplexity from the words alone, if it has parts.

    `examples` is what was said of each example, in the order of the batches; of words one entry a batch.
    An example of several rows is among them if all of these were scored. `numbers` says which example of the
    split each is, where they are examples. `texts` is what the model wrote, of as many as were asked for.
    """

    loss: float
    scores: Mapping[str, float]
    examples: Examples
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    texts: Examples | None = None

    def score(self, metric: str) -> float:
        """The value of one of the task's metrics."""
        return self.loss if metric == "loss" else self.scores[metric]


@dataclass(frozen=True)
class Judged:
    """A batch, what the task made of it, how wrong the model was, and what it said of each example."""

    batch: Batch
    prepared: Prepared
    loss: LossSum
    said: Mapping[str, Tensor]

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """What metrics go by: of each example, or where words are predicted the sums over the batch."""
        if self.loss.each is not None and self.prepared.of_examples:
            nats = self.loss.each.double().cpu().numpy()
            columns = {name: array_of(column) for name, column in self.said.items()}
            targets = self.prepared.row_targets.double().cpu().numpy()
            return {"nats": nats, "targets": targets, **columns}
        sums = {"nats": self.loss.total, "targets": self.loss.count, "words": self.loss.of_words.total}
        size = {"bytes": self.prepared.bytes} if self.prepared.sizes is not None else {}
        return {name: np.array([float(value)]) for name, value in (sums | size).items()}


@dataclass(frozen=True)
class ScoredBatch:
    """What an evaluation keeps of a batch."""

    total: float
    count: int
    columns: SplitColumns
    rows: NDArray[np.int64]
    parts: Mapping[str, float]

    @classmethod
    def of(cls, judged: Judged) -> ScoredBatch:
        loss = judged.loss
        parts = {name: float(part) for name, part in loss.parts.items()}
        rows = judged.batch.rows.numpy()
        return cls(float(loss.total), int(loss.count), judged.columns, rows, parts)


def concatenated_columns(columns: Sequence[SplitColumns]) -> SplitColumns:
    """The columns of batches, one batch after the other; rows that are shorter than others end in −1."""
    return {name: np.concatenate(widened([column[name] for column in columns])) for name in columns[0]}


def widened(columns: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    """Columns (n,k) of the same k, where they are not."""
    if columns[0].ndim != 2 or len({column.shape[1] for column in columns}) == 1:
        return columns
    most = max(column.shape[1] for column in columns)
    return [np.pad(c, ((0, 0), (0, most - c.shape[1])), constant_values=-1) for c in columns]


def array_of(column: Tensor) -> NDArray[Any]:
    """A column for metrics: numbers in float64, classes and flags as they are."""
    values = column.cpu()  # some devices have no double
    return (values.double() if values.is_floating_point() else values).numpy()


class Batches(Protocol):
    """Where an evaluation's batches come from: a loader, or a few batches of one."""

    @property
    def rows(self) -> Rows: ...

    def plan(self, epoch: int) -> Sized: ...

    def load(self, plan: Any, number: int) -> Batch: ...


def no_texts() -> Sequence[Example]:
    """The examples are not at hand."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """How a model is scored on a split: which batches, what they hide, where, in what precision. `texts`
    gives all its examples, where the task compares their text. Processes that share it are asked together,
    and get the same: each scores its batches, and all see those of all in order."""

    model: Model
    task: Task
    loader: Batches
    seed: int
    batches: int | Literal["all"] = "all"
    device: torch.device = CPU
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    features: FeaturesOf = no_features
    writer: TextWriter | None = None
    texts: Callable[[], Sequence[Example]] = no_texts
    sharing: Sharing = UNSHARED

    def said(self, count: int | None = None) -> Examples | None:
        """What the model writes of the first examples, or of all; nothing where it is not asked to write."""
        return None if self.writer is None else self.writer(count)

    def __call__(self, *, written: int | Literal["all"] = 0) -> Evaluation:
        """The mean loss over the batches and the task's metrics, in eval mode; and of so many examples the
        metrics of what the model writes."""
        total, count, parts = 0.0, 0, dict[str, float]()
        columns: list[SplitColumns] = []
        rows: list[NDArray[np.int64]] = []
        own = [ScoredBatch.of(judged) for judged in self.judged()]
        for scored in in_order_of_pieces(self.sharing.gather(own)):
            total, count = total + scored.total, count + scored.count
            columns.append(scored.columns)
            rows.append(scored.rows)
            for name, part in scored.parts.items():
                parts[name] = parts.get(name, 0.0) + part
        scores = {name: part / max(1, count) for name, part in parts.items()} | {"targets": count}
        examples, numbers = self.examples(columns, rows)
        metrics = {name: METRICS.build(name) for name in self.task.metrics if name != "loss"}
        scores |= {
            name: metric.value(examples) for name, metric in metrics.items() if metric.applies(examples)
        }
        texts = self.said(None if written == "all" else written) if written else None
        scores |= {} if texts is None else text_scores(texts)
        return Evaluation(total / max(1, count), scores, examples, numbers, texts)

    def examples(
        self, columns: Sequence[SplitColumns], rows: Sequence[NDArray[np.int64]]
    ) -> tuple[Examples, NDArray[np.int64]]:
        """What was said of the examples of some batches, given the columns of each and its encoded rows; and
        which examples they are, where they are not words."""
        judged, numbers = self.by_example(columns, rows)
        if self.task.predicts_words:
            return Examples(judged), np.zeros(0, np.int64)
        of_rows = self.loader.rows.scalars("example")
        scored = np.bincount(of_rows[np.concatenate(rows)], minlength=int(of_rows.max()) + 1)
        whole = (np.bincount(of_rows) == scored)[numbers]
        if not whole.any():
            raise DataError(
                "No example has all of its rows in the batches that are scored; set "
                'training.evaluate_batches to "all", or higher.'
            )
        if whole.all():
            return Examples(judged), numbers
        return Examples({name: column[whole] for name, column in judged.items()}), numbers[whole]

    def by_example(
        self, columns: Sequence[SplitColumns], rows: Sequence[NDArray[np.int64]]
    ) -> tuple[SplitColumns, NDArray[np.int64]]:
        """The columns of batches of these rows as those of examples, and which example each entry is."""
        if self.task.predicts_words:  # one entry a batch
            return concatenated_columns(columns), np.arange(len(columns))
        example = self.loader.rows.scalars("example")[np.concatenate(rows)]
        joined_columns, numbers = self.task.by_example(concatenated_columns(columns), example)
        texts = self.texts()
        return self.task.compare(
            joined_columns, [texts[n] for n in numbers]
        ) if texts else joined_columns, numbers

    def losses(self) -> Iterator[tuple[Batch, Prepared, LossSum]]:
        """Each batch, what the task made of it, and its loss."""
        for judged in self.judged():
            yield judged.batch, judged.prepared, judged.loss

    def judged(self) -> Iterator[Judged]:
        """Each of the first batches of the first epoch that this process scores, and how the model does."""
        plan = self.loader.plan(0)
        count = len(plan) if self.batches == "all" else min(self.batches, len(plan))
        with judging(self.model):
            for number in own_pieces(self.sharing, count):
                batch = self.loader.load(plan, number)
                yield self.judge(batch, number)

    @torch.no_grad()
    def judge(self, batch: Batch, number: int) -> Judged:
        """What the task makes of batch `number`, and how the model does on it."""
        prepared = self.prepare(batch, number)
        moved = self.features(batch, prepared.to(self.device))
        with self.autocast():
            columns, loss = self.model(**moved.inputs, objective=self.task.judge_of(moved))
        return Judged(batch, prepared, loss, columns)

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
