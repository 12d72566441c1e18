"""Hand-made batches and a vocabulary that one can read."""

from __future__ import annotations

import numpy as np
import torch

from attnlab.data.batch import Batch, collate
from attnlab.data.columns import Row
from attnlab.data.rows import in_memory
from attnlab.tasks.vocabulary import Vocabulary

PAD, UNKNOWN, START, STOP, SEPARATOR, MASK = range(6)
SIZE = 40
FIRST = 6
"""The first id that stands for text."""


def vocabulary(parts: tuple[int, ...] = ()) -> Vocabulary:
    """Words from id 6 on; those in `parts` go on with the word before them."""
    opens = np.zeros(SIZE, bool)
    opens[list(parts)] = True
    closes = np.ones(SIZE, bool)
    closes[:FIRST] = False
    return Vocabulary(SIZE, PAD, UNKNOWN, START, STOP, SEPARATOR, MASK, opens, closes)


def batch(*rows: list[int], packed: bool = False, side: str = "right", **columns: list) -> Batch:
    """Rows padded to the longest, or packed in one line."""
    held = []
    for number, ids in enumerate(rows):
        named = {name: values[number] for name, values in columns.items()}
        if "target" in named:
            named["target_sizes"] = [1] * len(named["target"])
        held.append(Row(ids, number, [1] * len(ids), **named))
    made = in_memory(held, vocabulary=SIZE)
    every = np.arange(len(rows))
    places = [every] if packed else [every[i : i + 1] for i in range(len(rows))]
    return collate(made, places, pad=PAD, side=side, packed=packed)


def text(length: int, seed: int = 0) -> list[int]:
    """START, words without equal neighbours, STOP."""
    generator = np.random.default_rng(seed)
    return [START, *generator.integers(FIRST, SIZE, length - 2).tolist(), STOP]


def shown(prepared) -> list[list[tuple[int, int]]]:
    """(input, target) pairs of each row, where there is a target."""
    rows = zip(prepared.ids.tolist(), prepared.targets.tolist(), strict=True)
    return [[(i, t) for i, t in zip(ids, targets, strict=True) if t >= 0] for ids, targets in rows]


def equal(a, b) -> bool:
    return torch.equal(a.ids, b.ids) and torch.equal(a.targets, b.targets)
