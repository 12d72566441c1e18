"""Which rows go together: four ways to batch, each a pure function of (lengths, seed, epoch)."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.config.ranges import Count
from attnlab.config.registry import Registry
from attnlab.config.schema import Unlimited
from attnlab.config.streams import stream_seed
from attnlab.data.errors import DataError

Index = NDArray[np.int64]

PACKING_WINDOW = 1 << 14
"""Rows packed together at a time: enough to fit well, few enough that neighbours change each epoch."""


@dataclass(frozen=True)
class Plan:
    """An epoch: `order` holds every row once; places part it into batch rows, batches part places."""

    order: Index
    place_bounds: Index
    batch_bounds: Index

    def __len__(self) -> int:
        return len(self.batch_bounds) - 1

    def batch(self, number: int) -> list[Index]:
        """The rows of each place of a batch."""
        first, last = self.batch_bounds[number], self.batch_bounds[number + 1]
        bounds = self.place_bounds[first : last + 1]
        return [self.order[a:b] for a, b in itertools.pairwise(bounds)]

    def waste(self, *columns: Index) -> float:
        """The share of places that padding takes over the whole epoch, for rows of these lengths."""
        tokens, places = (int(counts.sum()) for counts in self.sizes(*columns))
        return 1 - tokens / places if places else 0.0

    def sizes(self, *columns: Index) -> tuple[Index, Index]:
        """How many tokens each batch has, and how many places with padding, for rows of these lengths."""
        tokens, places = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        for lengths in columns if len(self.order) else ():
            used = np.add.reduceat(lengths[self.order], self.place_bounds[:-1])
            longest = np.maximum.reduceat(used, self.batch_bounds[:-1])
            tokens += np.add.reduceat(used, self.batch_bounds[:-1])
            places += longest * np.diff(self.batch_bounds)
        return tokens, places


class Batching(ABC):
    """A way to batch. `packs` says whether several rows share a line of the batch.

    `shuffles` says whether the seed decides the order of the batches.
    """

    packs = False
    shuffles = True

    def __init__(self, length: int):
        self.length = length

    @abstractmethod
    def plan(self, *columns: Index, seed: int, epoch: int) -> Plan:
        """An epoch's batches, for rows of these lengths; a second column holds those of the targets."""

    def settings(self) -> dict[str, object]:
        """What the order of batches follows from, by our own names: checkpoints hold a hash of it."""
        return {"batching": type(self).__name__, **vars(self)}


class Padded(Batching):
    """Rows in random order, each batch padded to its longest row.

    The plain way: every batch is a fair sample, and padding costs what the spread of lengths
    costs (on log-normal lengths three places in four).
    """

    def __init__(self, length: int, *, batch_size: Count = 32):
        super().__init__(length)
        self.rows = positive("padded", "batch_size", batch_size)

    def plan(self, *columns: Index, seed: int, epoch: int) -> Plan:
        count = len(columns[0])
        return one_each(shuffled(count, seed, epoch), even_bounds(count, self.rows))


class LongestFirst(Batching):
    """Rows sorted from the longest to the shortest, each batch padded to its longest row.

    Little padding, the largest batch comes first (so it fits in memory or fails at once), and
    equal lengths change places with the epoch. For evaluation; training would see lengths in order.
    """

    shuffles = False

    def __init__(self, length: int, *, batch_size: Count = 32):
        super().__init__(length)
        self.rows = positive("longest_first", "batch_size", batch_size)

    def plan(self, *columns: Index, seed: int, epoch: int) -> Plan:
        order = by_length(columns, 1, seed, epoch)[::-1]
        return one_each(order, even_bounds(len(order), self.rows))


class Bucketed(Batching):
    """Rows of similar length together, up to a budget of tokens with padding, or of rows; batches shuffled.

    Lengths are taken in steps of `step` tokens: within a step rows mix freely, so batches differ
    from epoch to epoch while padding stays below `step` tokens per row. Short rows come in larger
    batches, so every batch costs about the same, unless `batch_size` gives all batches the same number.
    """

    def __init__(
        self,
        length: int,
        *,
        tokens: Count = 4096,
        batch_size: Count | Unlimited = "unlimited",
        step: Count = 4,
    ):
        super().__init__(length)
        self.tokens, self.step = positive("bucketed", "tokens", tokens), positive("bucketed", "step", step)
        self.rows = (
            batch_size if batch_size == "unlimited" else positive("bucketed", "batch_size", batch_size)
        )
        if tokens < length:
            raise DataError(
                f"bucketed(tokens={tokens}) cannot hold one row of data.length {length}; "
                f"use tokens of at least {length}."
            )

    def plan(self, *columns: Index, seed: int, epoch: int) -> Plan:
        order = by_length(columns, self.step, seed, epoch)
        most = len(order) if self.rows == "unlimited" else self.rows
        bounds = budget_bounds([lengths[order] for lengths in columns], self.tokens, most)
        return shuffled_batches(order, bounds, seed, epoch)


class Packed(Batching):
    """Several whole rows in one line of the batch, placed where they fit best: hardly any padding.

    Each keeps its own positions and a document number, across which no attention goes. Longest
    first into the fullest line that still has room (best fit decreasing), within windows of the
    epoch's random order. Needs a model that masks by document; texts with a label do not pack.
    Ding et al. 2024, "Fewer Truncations Improve Language Modeling".
    """

    packs = True

    def __init__(self, length: int, *, batch_size: Count = 32):
        super().__init__(length)
        self.rows = positive("packed", "batch_size", batch_size)

    def plan(self, *columns: Index, seed: int, epoch: int) -> Plan:
        lengths = columns[0]
        order = shuffled(len(lengths), seed, epoch)
        lines: list[list[int]] = []
        for begin in range(0, len(order), PACKING_WINDOW):
            window = order[begin : begin + PACKING_WINDOW]
            lines += best_fit(window, lengths, self.length)
        places = shuffled(len(lines), seed, epoch, "places")
        sizes = np.array([len(lines[p]) for p in places], np.int64)
        flat = np.fromiter((row for p in places for row in lines[p]), np.int64, count=len(order))
        return Plan(flat, bounds_of(sizes), even_bounds(len(lines), self.rows))


BATCHING: Registry[Batching] = Registry(
    "batching",
    base="attnlab.data.batching:Batching",
    default="packed",
    variants={
        "padded": "attnlab.data.batching:Padded",
        "longest_first": "attnlab.data.batching:LongestFirst",
        "bucketed": "attnlab.data.batching:Bucketed",
        "packed": "attnlab.data.batching:Packed",
    },
)


def positive(kind: str, option: str, value: int) -> int:
    if value < 1:
        raise DataError(f"{kind}({option}={value}): {option} must be at least 1.")
    return value


def shuffled(count: int, seed: int, epoch: int, *names: str) -> Index:
    """A random order of `count` things, the same for the same seed and epoch."""
    return np.random.default_rng(stream_seed(seed, "order", epoch, *names)).permutation(count)


def by_length(columns: Sequence[Index], step: int, seed: int, epoch: int) -> Index:
    """Rows from short to long in steps, by the first column and then by the next; equal ones at random."""
    order = shuffled(len(columns[0]), seed, epoch)
    keys = [(lengths[order] - 1) // step for lengths in columns]
    return order[np.lexsort(keys[::-1])]


def bounds_of(sizes: Index) -> Index:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def even_bounds(count: int, size: int) -> Index:
    """Bounds of groups of `size`, the last of what is left."""
    return np.append(np.arange(0, count, size), count).astype(np.int64)


def one_each(order: Index, batch_bounds: Index) -> Plan:
    """A plan in which every row has a line of its own."""
    return Plan(order, np.arange(len(order) + 1), batch_bounds)


def budget_bounds(columns: Sequence[Index], tokens: int, rows: int) -> Index:
    """Bounds of batches of neighbours: at most so many rows, and rows × longest, over all columns, within
    the tokens."""
    if not len(columns[0]):
        return np.zeros(1, np.int64)
    bounds, longest = [0], [0] * len(columns)
    for place, lengths in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        longest = list(map(max, longest, lengths))
        count = place - bounds[-1]
        if count and (count == rows or (count + 1) * sum(longest) > tokens):
            bounds.append(place)
            longest = list(lengths)
    return np.array([*bounds, len(columns[0])], np.int64)


def shuffled_batches(order: Index, bounds: Index, seed: int, epoch: int) -> Plan:
    """The same batches in random order."""
    shuffle = shuffled(len(bounds) - 1, seed, epoch, "batches")
    mixed = [order[bounds[b] : bounds[b + 1]] for b in shuffle]
    sizes = np.array([len(batch) for batch in mixed], np.int64)
    return one_each(np.concatenate([order[:0], *mixed]), bounds_of(sizes))


def best_fit(rows: Index, lengths: Index, room: int) -> list[list[int]]:
    """Lines of rows whose lengths add up to at most `room`, by best fit decreasing."""
    by_room: list[list[list[int]]] = [[] for _ in range(room + 1)]
    open_rooms = 0  # bit r is set where a line has exactly r places left
    lines: list[list[int]] = []
    for row in rows[np.argsort(-lengths[rows], kind="stable")].tolist():
        length = int(lengths[row])
        fitting = open_rooms >> length
        if fitting:
            left = length + (fitting & -fitting).bit_length() - 1
            line = by_room[left].pop()
            if not by_room[left]:
                open_rooms &= ~(1 << left)
        else:
            left, line = room, []
            lines.append(line)
        line.append(row)
        by_room[left - length].append(line)
        open_rooms |= 1 << (left - length)
    return lines
