"""Text of one split in another."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.check import Case, Check, Finding, When
from attnlab.data.dataset import Dataset

TOKENS, BYTES = 13, 78
"""A run that two texts hardly share by chance: some 13 words, which are more tokens where those are short."""
ROWS = 50_000
"""Rows of each split that are read at most: enough to see what is wrong."""
EXACT, RUNS, SAME = 0.05, 0.4, 0.5

Numbers = NDArray[np.uint64]


class Contamination(Check):
    """Contamination: is text of dev or test among the text that is learnt?

    Formula: the share of dev and test examples that stand in train, case and white space aside; and
    the shares of their passages and of runs of some 13 words of their rows that occur in train. Told above
    5 % and 40 %; from half of the examples on it fails. At most 100,000 examples and 50,000 rows of each
    split are read.

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
        texts, length = dataset.traces, run_length(dataset)
        learnt, runs = set(texts["train"]), run_numbers(dataset, "train", length)
        found = {}
        for name in others:
            own = run_numbers(dataset, name, length)
            same = sum(number in learnt for number in texts[name])
            counted = Overlap(same, len(texts[name]), int(np.isin(own, runs).sum()), len(own), length)
            found[name] = counted.with_passages(dataset.passages["train"], dataset.passages[name])
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
        if worst.exact > EXACT or max(max(of.shared, of.passages) for of in found.values()) > RUNS:
            return self.warned(
                case,
                told,
                worst.exact,
                meaning="Part of what is judged was learnt: its scores are better than on new text.",
                fix="Remove the shared texts from train, or split by document or passage, not by line.",
            )
        return self.passed(case, told, worst.exact)


class Overlap:
    """What a split shares with train, counted."""

    def __init__(self, same: int, examples: int, runs: int, of: int, length: int):
        self.exact, self.shared = same / max(examples, 1), runs / max(of, 1)
        self.told = (
            f"{same:,} of {examples:,} texts are in train, "
            f"{runs:,} of {of:,} runs of {length} tokens ({self.shared:.1%})"
        )
        self.passages = 0.0

    def with_passages(self, learnt: Collection[int], own: Collection[int]) -> Overlap:
        """Questions may differ on a passage that is the same; rows without one have nothing to add."""
        if own:
            same = len(set(learnt) & set(own))
            self.passages = same / len(own)
            self.told += f", {same:,} of {len(own):,} passages"
        return self


def run_length(dataset: Dataset) -> int:
    """How many tokens some 13 words are."""
    rows = dataset.rows("train")
    size = sum(int(part["bytes"].sum()) for part in rows.parts)
    return max(TOKENS, round(BYTES * int(rows.lengths.sum()) / max(size, 1)))


def run_numbers(dataset: Dataset, split: str, length: int) -> Numbers:
    """A number for each run of tokens inside a row of a split."""
    rows = dataset.rows(split)
    chosen = range(min(len(rows), ROWS))
    ids = [rows.ragged("ids", row) for row in chosen]
    lengths = rows.lengths[: len(ids)]
    flat = np.concatenate(ids).astype(np.uint64) if ids else np.zeros(0, np.uint64)
    if len(flat) < length:
        return np.zeros(0, np.uint64)
    windows = len(flat) - length + 1
    numbers = np.zeros(windows, np.uint64)
    for step in range(length):  # modulo 2⁶⁴, by an odd factor that mixes the bits
        numbers = numbers * np.uint64(0x9E3779B97F4A7C15) + flat[step : step + windows] + np.uint64(1)
    row = np.repeat(np.arange(len(ids)), lengths)
    inside = row[:windows] == row[length - 1 :]
    return numbers[inside]
