"""A few rows of many: drawn by a seed, each class in its share, and fewer of them always among more."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Sequence

from attnlab.config.streams import stream_seed
from attnlab.data.errors import DataError


def drawn(classes: Sequence[Hashable], rows: int, seed: int) -> list[int]:
    """The numbers of so many rows, given the class of each; all rows of one class where there are none.

    Rows are put in one order for each seed, of which the first are taken: row k of a class with n rows, in
    random order and counted from 0, stands at (k + ½) / n, and the first of each class before all others. So
    each class has its share, rounded, and one row at the least.
    """
    if rows > len(classes):
        raise DataError(
            f"data.train_rows is {rows:,}, but the training split has {len(classes):,} rows; use at most so "
            'many, or "unlimited".'
        )
    known = len(set(classes))
    if rows < known:
        raise DataError(
            f"data.train_rows is {rows:,}, but the training split has {known:,} classes, each of which needs "
            f"a row; use at least {known:,}."
        )
    return [row for _, row in sorted(_places(classes, seed))[:rows]]


def _places(classes: Sequence[Hashable], seed: int) -> list[tuple[tuple[float, float], int]]:
    """Each row with its place in the order; chance decides between equal places."""
    chance = random.Random(stream_seed(seed, "train_rows"))
    lots = [chance.random() for _ in classes]
    members: dict[Hashable, list[int]] = defaultdict(list)
    for row, held in enumerate(classes):
        members[held].append(row)
    return [
        (((place + 0.5) / len(held) if place else 0.0, lots[row]), row)
        for held in members.values()
        for place, row in enumerate(sorted(held, key=lots.__getitem__))
    ]
