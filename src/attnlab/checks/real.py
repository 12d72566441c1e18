"""What checks look at: real batches, as the run meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.checks.check import Case
from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch, collate
from attnlab.data.columns import BY_TOKEN, OF_LAYOUT, ColumnKind, kind_in_batch
from attnlab.data.loader import Loader
from attnlab.data.rows import Rows
from attnlab.evaluation.evaluator import Batches, Evaluator
from attnlab.evaluation.texts import owners_of
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.tasks.task import PassagePlaces, Prepared, Spans

SECOND = (ColumnKind.SECOND, ColumnKind.SECOND_NUMBERS)
LOOKED_AT = 8
"""Batches among which one with rows long enough is looked for."""


def batch_of(case: Case, split: str = "train", *, least: int = 1) -> Batch:
    """A split's first batch in the run's own order, whose rows have at least so many places if any has."""
    dataset = case.dataset
    loader = dataset.trained(case.config.seed) if split == "train" else dataset.scored(split)
    plan = loader.plan(0)
    batches = (loader.load(plan, number) for number in range(min(LOOKED_AT, len(plan))))
    first = next(batches)
    if first.ids.shape[1] >= least:
        return first
    return next((batch for batch in batches if batch.ids.shape[1] >= least), first)


def prepared_of(case: Case, batch: Batch) -> Prepared:
    """What the task makes of a batch; of a small one, the first masking that leaves a target."""
    for number in range(LOOKED_AT):
        seed = stream_seed(case.config.seed, "masking", 0, number)
        prepared = case.task.prepare(batch, seed).to(torch.device("cpu"))
        if prepared.count:
            break
    return prepared


def real(case: Case) -> Prepared:
    """The first batch that training meets, as the task makes it."""
    return prepared_of(case, batch_of(case))


def held_out(case: Case) -> str:
    """The split that the model has not learned, where there is one."""
    return "dev" if "dev" in case.dataset.splits.names else "train"


def piece(batch: Batch, rows: int, length: int | None = None) -> Batch:
    """The first rows of a batch and `length` of their places, from the side that has no padding; of questions
    those around the answer."""
    if length and batch.start is not None:
        return around_answers(batch, rows, length)
    ids = batch.ids[:rows]
    length = length or ids.shape[1]
    left = bool(batch.real[:rows, -1:].all()) and not bool(batch.real[:rows, :1].all())
    places = slice(-length, None) if left else slice(0, length)

    def cut(name: str, column: Tensor) -> Tensor:
        kind = kind_in_batch(name)
        if name == "rows":
            return column
        if kind in SECOND:
            return column[:rows, :length]
        return column[:rows, places] if name in OF_LAYOUT or kind in BY_TOKEN else column[:rows]

    return Batch(**{name: cut(name, column) for name, column in batch.columns.items()})


def around_answers(batch: Batch, rows: int, length: int) -> Batch:
    """The first rows of a batch of questions with `length` of their places: the first, which stands for no
    answer, and a stretch of the passage, which begins some places before the answer."""
    assert batch.start is not None and batch.end is not None and batch.char_start is not None
    rows = min(rows, len(batch.ids))
    line, first = torch.arange(rows), batch.real[:rows].long().argmax(1)
    passage = (batch.char_start[:rows] >= 0).long()
    begins, ends = passage.argmax(1), passage.argmax(1) + passage.sum(1)
    has = batch.start[:rows] > first
    before = (5 * line + 1) % (length // 2)  # not always at the same place
    begin = torch.where(has, batch.start[:rows] - before, begins)
    begin = torch.minimum(begin, ends - length + 1).clamp(min=0).maximum(begins)
    stretch = begin[:, None] + torch.arange(length - 1)
    places = torch.cat([first[:, None], stretch.clamp(max=batch.ids.shape[1] - 1)], 1)
    kept = torch.cat([torch.ones(rows, 1, dtype=torch.bool), stretch < ends[:, None]], 1)

    def moved(place: Tensor) -> Tensor:
        return torch.where(has, (place[:rows] - begin + 1).clamp(max=length - 1), 0)

    chosen = {
        name: column[:rows][line[:, None], places]
        if name != "rows" and (name in OF_LAYOUT or kind_in_batch(name) in BY_TOKEN)
        else column
        for name, column in batch.columns.items()
    }
    chosen |= {"rows": batch.rows[:rows], "start": moved(batch.start), "end": moved(batch.end)}
    return Batch(**chosen | {"real": kept, "char_start": chosen["char_start"].masked_fill(~kept, -1)})


def rows_of(prepared: Prepared, start: int, stop: int) -> Prepared:
    """Some rows of what is prepared, as far as there are any."""
    rows = torch.arange(start, min(stop, len(prepared.ids)))

    def chosen(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value[start:stop]
        if isinstance(value, Tokens):
            return value.select(rows)
        if isinstance(value, PassagePlaces):
            return PassagePlaces(start=value.start[start:stop], end=value.end[start:stop])
        if isinstance(value, Spans):
            kept = (value.row >= start) & (value.row < stop)
            columns = {name: column[kept] for name, column in vars(value).items()}
            return Spans(**columns | {"row": columns["row"] - start})
        return value

    return replace(prepared, **{name: chosen(value) for name, value in vars(prepared).items()})


def evaluator_of(case: Case) -> Evaluator:
    """How the run itself scores dev; where there is no run yet, how it would."""
    if case.evaluator is not None:
        return case.evaluator
    seed = case.config.data.split_seed
    loader = case.dataset.scored(held_out(case))
    return Evaluator(model=case.model, task=case.task, loader=loader, seed=seed)


@dataclass(frozen=True)
class Pieces:
    """A few small batches in the place of a loader."""

    rows: Rows
    batches: Sequence[Batch]

    def plan(self, epoch: int) -> range:
        return range(len(self.batches))

    def load(self, plan: range, number: int) -> Batch:
        return self.batches[number]


def uneven(loader: Batches, lines: int) -> Pieces:
    """Some lines of the first batch, and a single one of the last: means over them weigh differently.

    No line is in both, or its text would be counted twice: of a single line there is one batch.
    """
    plan = loader.plan(0)
    first, last = loader.load(plan, 0), loader.load(plan, len(plan) - 1)
    count = len(last.ids)
    some = min(lines, count - 1) if len(plan) == 1 else lines
    batches = [cut_lines(first, loader.rows, 0, some)] if some else []
    batches.append(cut_lines(last, loader.rows, count - 1, count))
    return Pieces(loader.rows, [*batches, *whole_example(loader, batches)])


def whole_example(loader: Batches, batches: Sequence[Batch]) -> list[Batch]:
    """All rows of one more example, where none is whole in these batches: a score is of whole ones alone."""
    example = loader.rows.scalars("example")
    held = np.zeros(len(example), bool)
    held[np.concatenate([batch.rows.numpy() for batch in batches])] = True
    parts, there = np.bincount(example), np.bincount(example[held], minlength=int(example.max()) + 1)
    if not isinstance(loader, Loader) or bool((parts == there)[parts > 0].any()):
        return []
    untouched = np.flatnonzero((parts > 0) & (there == 0))
    rows = np.flatnonzero(example == untouched[0]) if len(untouched) else np.array([], int)
    places = [np.array([row]) for row in rows]
    return [collate(loader.rows, places, pad=loader.pad, side=loader.side)] if places else []


def cut_lines(batch: Batch, rows: Rows, start: int, stop: int) -> Batch:
    """Some lines of a batch with the encoded rows that are theirs."""
    owners = list(owners_of(batch, rows))
    before, own = (sum(map(len, part)) for part in (owners[:start], owners[start:stop]))
    numbers = batch.rows[before : before + own]
    lines = {name: column[start:stop] for name, column in batch.columns.items()}
    return batch.changed(**lines | {"rows": numbers})


def device_of(model: Model) -> torch.device:
    return next(model.parameters()).device
