"""What the words of a text cost by counts of the training text alone: a model has learned once it costs less.

Nothing is trained here. Tokens, and pairs of neighbours, are counted where training predicts them; the text
that is scored is the very one that the model is scored on, target by target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.data.dataset import Dataset
from attnlab.data.rows import Rows
from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.evaluator import Evaluator
from attnlab.metrics.metric import Examples
from attnlab.model.losses import IGNORE
from attnlab.tasks.task import Prepared, Task

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

DISCOUNT = 0.75
"""What each count gives up for what was not seen (Ney, Essen and Kneser 1994)."""
MOST = 5_000_000
"""Tokens of training text that are counted: of more of them, hardly another number comes."""
COUNTED = "word frequencies"
"""Under this a dataset keeps what was counted."""
NONE = -1
"""The neighbour of a token that has none."""
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
COUNTINGS = ("unigram", "bigram")
"""Ways of counting, the weaker first."""


@dataclass(frozen=True, eq=False)
class WordFrequencies:
    """How often each token (V) is a target of training, and how often it follows another.

    `pairs` are the numbers `before * V + token` of pairs that occur, in order, `pair_counts` how often each
    does. A pair that was not seen backs off to how often its token occurs, and that to 1/V.
    """

    counts: Ids
    pairs: Ids
    pair_counts: Ids

    @classmethod
    def of(cls, rows: Rows, task: Task) -> WordFrequencies:
        """Those of the rows that a task is trained on."""
        size, special = task.vocabulary.size, task.vocabulary.special
        counts, pairs = np.zeros(size, np.int64), [np.zeros(0, np.int64)]
        for before, tokens, asked in _neighbours(rows, task.predicted_column):
            wanted = asked & (~special[tokens] if task.fills else before != NONE)
            counts += np.bincount(tokens[wanted], minlength=size)
            paired = wanted & (before != NONE)
            pairs.append(before[paired] * size + tokens[paired])
        return cls(counts, *np.unique(np.concatenate(pairs), return_counts=True))

    @property
    def total(self) -> int:
        """How many targets were counted."""
        return int(self.counts.sum())

    @cached_property
    def shares(self) -> Floats:
        """(V) the probability of each token."""
        size, total = len(self.counts), max(1, self.total)
        left = DISCOUNT * np.count_nonzero(self.counts) / total if self.total else 1.0
        shares: Floats = np.maximum(self.counts - DISCOUNT, 0) / total + left / size
        return shares

    def unigram(self, tokens: Ids) -> Floats:
        """(n) the nats of each token by how often it occurs."""
        nats: Floats = -np.log(self.shares[tokens])
        return nats

    @cached_property
    def followed(self) -> tuple[Floats, Floats]:
        """(V+1) each: how often a token is followed by another, and by how many different ones. The last is
        of NONE, which is no token."""
        size = len(self.counts)
        before = self.pairs // size
        times: Floats = np.bincount(before, self.pair_counts, minlength=size + 1).astype(np.float64)
        return times, np.bincount(before, minlength=size + 1).astype(np.float64)

    def bigram(self, before: Ids, tokens: Ids) -> Floats:
        """(n) the nats of each token by how often it follows the one before it."""
        wanted = before * len(self.counts) + tokens
        first, last = (np.searchsorted(self.pairs, wanted, side=side) for side in SIDES)
        own = np.append(self.pair_counts, 0)[np.where(first < last, first, -1)]
        times, followers = (column[before] for column in self.followed)
        left = np.where(times > 0, DISCOUNT * followers / np.maximum(times, 1), 1.0)
        shares = np.maximum(own - DISCOUNT, 0) / np.maximum(times, 1) + left * self.shares[tokens]
        nats: Floats = -np.log(shares)
        return nats


def _neighbours(rows: Rows, column: str) -> Iterator[tuple[Ids, Ids, NDArray[np.bool_]]]:
    """(before, tokens, asked) of the parts of all rows: the first of a row has none before it, and a source
    that shares the row of its target is not asked for."""
    counted = 0
    for part in rows.parts:
        tokens = np.asarray(part[column][: MOST - counted]).astype(np.int64)
        first = part[f"{column}.bounds"][:-1]
        before = np.empty_like(tokens)
        before[1:] = tokens[:-1]
        before[first[first < len(tokens)]] = NONE
        counted += len(tokens)
        yield before, tokens, _after_source(part, column)[: len(tokens)]


def _after_source(part: Mapping[str, NDArray[Any]], column: str) -> NDArray[np.bool_]:
    """Which tokens of a part's rows stand behind the source that shares their row, where one does."""
    bounds = part[f"{column}.bounds"]
    if "source" not in part:
        return np.ones(int(bounds[-1]), bool)
    lengths = np.diff(bounds)
    place = np.arange(int(bounds[-1])) - np.repeat(bounds[:-1], lengths)
    after: NDArray[np.bool_] = place >= np.repeat(part["source"], lengths)
    return after


def targets_of(prepared: Prepared, task: Task) -> tuple[Ids, Ids]:
    """(before, tokens) at each place that has a target: what the model reads there, or on its left where it
    fills a hole."""
    wanted = (prepared.targets != IGNORE).numpy()
    read = prepared.ids.numpy()
    if task.fills:
        left = np.full_like(read, NONE)
        left[:, 1:] = read[:, :-1]
        document = prepared.tokens.document
        if document is not None:
            texts = document.expand(read.shape).numpy()
            left[:, 1:][texts[:, 1:] != texts[:, :-1]] = NONE
        read = left
    return read[wanted], prepared.targets.numpy()[wanted]


@dataclass(frozen=True)
class FrequencyLosses:
    """What counts of the training text lose on a split, by way of counting: by text in the split's order, and
    by batch, where dev is scored in training."""

    losses: Mapping[str, DocumentLosses]
    by_batch: Mapping[str, Examples]
    most_frequent: tuple[int, int]
    """The token that occurs most often in training text, and how many of the targets are it."""

    @property
    def by_text(self) -> dict[str, Examples]:
        return {name: losses.examples for name, losses in self.losses.items()}


def frequency_losses(evaluator: Evaluator, frequencies: WordFrequencies) -> FrequencyLosses:
    """The loss of counts on the batches that a model is scored on, with the same tokens hidden."""
    loader, task = evaluator.loader, evaluator.task
    example = loader.rows.scalars("example")
    plan, size = loader.plan(0), int(example.max()) + 1
    numbers = range(len(plan))[: None if evaluator.batches == "all" else evaluator.batches]
    token, right, targets = int(frequencies.counts.argmax()), 0, np.zeros(size, np.int64)
    by_text = {name: np.zeros(size) for name in COUNTINGS}
    by_batch: dict[str, list[float]] = {name: [] for name in (*COUNTINGS, "targets")}
    for number in numbers:
        batch = loader.load(plan, number)
        prepared = evaluator.prepare(batch, number)
        before, tokens = targets_of(prepared, task)
        wanted = prepared.targets != IGNORE
        text = example[batch.owner.expand_as(wanted)[wanted].numpy()]
        nats = {"unigram": frequencies.unigram(tokens), "bigram": frequencies.bigram(before, tokens)}
        for name, each in nats.items():
            by_text[name] += np.bincount(text, each, minlength=size)
            by_batch[name].append(float(each.sum()))
        by_batch["targets"].append(float(len(tokens)))
        targets += np.bincount(text, minlength=size)
        right += int((tokens == token).sum())
    bytes_ = np.zeros_like(targets)
    counted = np.array(by_batch["targets"])
    return FrequencyLosses(
        {name: DocumentLosses(nats, targets, bytes_) for name, nats in by_text.items()},
        {name: Examples({"nats": np.array(by_batch[name]), "targets": counted}) for name in by_text},
        (token, right),
    )


def row_frequencies(frequencies: WordFrequencies, rows: Sequence[Sequence[int]]) -> FrequencyLosses:
    """What counts lose on texts of which each token but the first is predicted from those before it."""
    texts = [np.array(row, np.int64) for row in rows]
    nats = {
        "unigram": np.array([frequencies.unigram(text[1:]).sum() for text in texts]),
        "bigram": np.array([frequencies.bigram(text[:-1], text[1:]).sum() for text in texts]),
    }
    targets = np.array([len(text) - 1 for text in texts])
    token = int(frequencies.counts.argmax())
    right = sum(int((text[1:] == token).sum()) for text in texts)
    losses = {name: DocumentLosses(each, targets, np.zeros_like(targets)) for name, each in nats.items()}
    return FrequencyLosses(losses, {}, (token, right))


def frequencies_of(dataset: Dataset, task: Task) -> WordFrequencies:
    """Those of a run's training text, counted once."""
    if COUNTED not in dataset.notes:
        dataset.notes[COUNTED] = WordFrequencies.of(dataset.rows("train"), task)
    frequencies: WordFrequencies = dataset.notes[COUNTED]
    return frequencies


def split_frequencies(dataset: Dataset, split: str, evaluator: Evaluator) -> FrequencyLosses:
    """What counts of a run's training text lose on a split, scored once."""
    key = f"{COUNTED} {split} {evaluator.batches}"
    if key not in dataset.notes:
        dataset.notes[key] = frequency_losses(evaluator, frequencies_of(dataset, evaluator.task))
    losses: FrequencyLosses = dataset.notes[key]
    return losses
