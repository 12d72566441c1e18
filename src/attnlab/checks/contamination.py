"""Text of one split in another."""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.check import Case, Check, Finding, When
from attnlab.data.dataset import Dataset
from attnlab.data.splits import trace

RUN = 13
"""Tokens in a row that two texts hardly share by chance."""
EXAMPLES, ROWS = 100_000, 50_000
"""Examples of all splits, and rows of each, that are read at most: enough to see what is wrong."""
EXACT, RUNS, SAME = 0.05, 0.4, 0.5

Numbers = NDArray[np.uint64]


class Contamination(Check):
    """Contamination: is text of dev or test among the text that is learnt?

    Formula: the share of dev and test examples that stand in train, case and white space aside; and
    the share of runs of 13 tokens of their rows that occur in train. Told above 5 % and 40 %; from
    half of the examples on it fails. At most 100,000 examples and 50,000 rows of each split are read.

    When it helps: what was learnt by heart is scored as if it had been understood. Splits that
    attnlab makes never share an equal text; given ones may be the same rows.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.5

    def run(self, case: Case) -> Finding:
        dataset = case.dataset
        others = [name for name in dataset.splits.names if name != "train"]
        if not others:
            return self.not_applicable(case, "there is no split but train")
        texts, runs = traces(dataset), run_numbers(dataset, "train")
        learnt = set(texts["train"])
        found = {name: overlap(dataset, name, learnt, texts[name], runs) for name in others}
        told = "; ".join(f"{name}: {of.told}" for name, of in found.items())
        worst = max(found.values(), key=lambda of: (of.exact, of.shared))
        if worst.exact >= SAME:
            return self.failed(
                case,
                told,
                worst.exact,
                meaning="The splits are the same text: what is called dev or test is a training score.",
                fix="Give a dev and test split of their own, or none, and let data.dev_share make them.",
            )
        if worst.exact > EXACT or max(of.shared for of in found.values()) > RUNS:
            return self.warned(
                case,
                told,
                worst.exact,
                meaning="Part of what is judged was learnt: its scores are better than on new text.",
                fix="Remove the shared texts from train, or split by document rather than by line.",
            )
        return self.passed(case, told, worst.exact)


class Overlap:
    """What a split shares with train, counted."""

    def __init__(self, same: int, examples: int, runs: int, of: int):
        self.exact, self.shared = same / max(examples, 1), runs / max(of, 1)
        self.told = (
            f"{same:,} of {examples:,} texts are in train, "
            f"{runs:,} of {of:,} runs of {RUN} tokens ({self.shared:.1%})"
        )


def overlap(dataset: Dataset, split: str, learnt: set[int], own: list[int], runs: Numbers) -> Overlap:
    numbers = run_numbers(dataset, split)
    shared = int(np.isin(numbers, runs).sum())
    return Overlap(sum(number in learnt for number in own), len(own), shared, len(numbers))


def traces(dataset: Dataset) -> dict[str, list[int]]:
    """What tells a text from another, for the texts of each split."""
    found: dict[str, list[int]] = {name: [] for name in dataset.splits.names}
    for split, example in islice(dataset.splits.every(), EXAMPLES):
        found[split].append(trace(example))
    return found


def run_numbers(dataset: Dataset, split: str) -> Numbers:
    """A number for each run of tokens inside a row of a split."""
    rows = dataset.rows(split)
    chosen = range(min(len(rows), ROWS))
    ids = [rows.ragged("ids", row) for row in chosen]
    lengths = rows.lengths[: len(ids)]
    flat = np.concatenate(ids).astype(np.uint64) if ids else np.zeros(0, np.uint64)
    if len(flat) < RUN:
        return np.zeros(0, np.uint64)
    windows = len(flat) - RUN + 1
    numbers = np.zeros(windows, np.uint64)
    for step in range(RUN):  # modulo 2⁶⁴, by an odd factor that mixes the bits
        numbers = numbers * np.uint64(0x9E3779B97F4A7C15) + flat[step : step + windows] + np.uint64(1)
    row = np.repeat(np.arange(len(ids)), lengths)
    inside = row[:windows] == row[RUN - 1 :]
    return numbers[inside]
