"""What splits share: equal texts, nearly equal ones, runs of words, passages. Of the text alone, whatever
tokenizer, encoding or length it is read with."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from attnlab.data.example import Example
from attnlab.data.ngrams import FEWEST, Hashes, Index, Numbering, Worded, best_matches, shared
from attnlab.data.reading import read_for
from attnlab.data.splits import Splits, passage_trace, trace
from attnlab.data.tokenizers import training_text
from attnlab.data.tokenizers.training_text import smallest

TEXTS, CHARACTERS = 100_000, 8_000_000
"""Of each split at most so many are held, to search for texts and runs of words that are nearly the same. The
traces of all texts are compared, whatever their number."""
READ = 4
"""Times as much is read at most, where it is read for this alone and not while it is encoded."""
SAMPLE, MOST_QUERIES = 500, 2000
"""Texts of each split that are looked up in the others, where all of these are held, and where few are."""
RUN = 13
"""Words that two texts hardly share by chance."""
SHORT_RUNS = 20_000
"""Runs of each split by which the text that a tokenizer was trained on is known again."""
NEAR = 0.6
"""From this share of its pairs of words on a text is nearly another one."""
SHOWN = 100


@dataclass(frozen=True)
class Traced:
    """Some texts in numbers: the trace and the characters of each, and the traces of their passages."""

    traces: Hashes
    characters: Index
    passages: frozenset[int]


class Gathered:
    """What is known of a split: the traces of all of its texts, and the texts themselves, as far as they are
    held. Beyond the bounds those with small traces are: a fair choice from the whole split, always the same.
    """

    def __init__(self) -> None:
        self.parts: list[Traced] = []
        self.passages: set[int] = set()
        self.texts: list[str] = []
        self.held: list[int] = []  # the traces of the texts
        self.characters, self.below = 0, 1 << 64
        self.ended = True  # whether the split was read to its end

    def add(self, chunk: Sequence[Example], traced: Traced) -> None:
        self.parts.append(traced)
        self.passages |= traced.passages
        for number in np.flatnonzero(traced.traces <= np.uint64(self.below - 1)).tolist():
            if (trace := int(traced.traces[number])) < self.below:
                self.texts.append(text_of(chunk[number]))
                self.held.append(trace)
                self.characters += len(self.texts[-1])
                self._forget()

    def _forget(self) -> None:
        """Halve the choice for as long as it is too large."""
        while len(self.texts) > TEXTS or self.characters > CHARACTERS:
            self.below //= 2
            kept = [number for number, trace in enumerate(self.held) if trace < self.below]
            self.texts, self.held = [self.texts[n] for n in kept], [self.held[n] for n in kept]
            self.characters = sum(map(len, self.texts))

    @functools.cached_property
    def traces(self) -> Hashes:
        """Of all texts."""
        return np.concatenate([np.zeros(0, np.uint64), *(part.traces for part in self.parts)])

    @functools.cached_property
    def sizes(self) -> Index:
        """The characters of all texts."""
        return np.concatenate([np.zeros(0, np.int64), *(part.characters for part in self.parts)])

    @functools.cached_property
    def counted(self) -> tuple[Hashes, Index]:
        """Each trace once, in order, and how many texts have it."""
        return np.unique(self.traces, return_counts=True)

    def occurrences(self, traces: Hashes) -> Index:
        """How many texts have each of these traces."""
        kinds, counts = self.counted
        if not len(kinds):
            return np.zeros(len(traces), np.int64)
        place = np.minimum(np.searchsorted(kinds, traces), len(kinds) - 1)
        return np.where(kinds[place] == traces, counts[place], 0)

    @property
    def share(self) -> float:
        """How much of the split's text is held."""
        return self.characters / max(int(self.sizes.sum()), 1) if self.texts else 0.0

    @property
    def read(self) -> dict[str, Any]:
        """What a finding says of it."""
        texts, every = len(self.texts), len(self.traces)
        return {"texts": texts, "of": every, "ended": self.ended, "all": self.ended and texts == every}

    def chosen(self, most: int) -> list[int]:
        """The numbers of held texts with the smallest traces."""
        return sorted(np.argsort(np.array(self.held, np.uint64), kind="stable")[:most].tolist())


class Gathering:
    """Sees the texts of a reading (reading.py), and gathers what is to be compared."""

    def __init__(self) -> None:
        self.found: dict[str, Gathered] = {}

    def look(self, split: str, first: int, chunk: Sequence[Example]) -> Traced:
        traces = np.fromiter(map(trace, chunk), np.uint64, len(chunk))
        sizes = np.fromiter((len(text_of(example)) for example in chunk), np.int64, len(chunk))
        passages = frozenset(found for example in chunk if (found := passage_trace(example)) is not None)
        return Traced(traces, sizes, passages)

    def take(self, split: str, chunk: Sequence[Example], traced: Traced) -> None:
        self.of(split).add(chunk, traced)

    def of(self, split: str) -> Gathered:
        return self.found.setdefault(split, Gathered())

    def complete(self, names: Sequence[str]) -> dict[str, Gathered]:
        """What was gathered of each split, nothing for one without text."""
        return {name: self.of(name) for name in names}


def text_of(example: Example) -> str:
    return " ".join(part for part in (example.text, example.pair, example.target) if part is not None)


def overlap_of(splits: Splits) -> dict[str, Any]:
    """What the splits of a corpus share, which is read for it, as far as it takes a few seconds."""
    gathering = Gathering()
    read_for([gathering], beginnings(splits, gathering), processes=1)
    return overlap_between(gathering.complete(splits.names))


def beginnings(splits: Splits, gathering: Gathering) -> Iterator[tuple[str, Example]]:
    """The examples of each given split with their sides, as many as are read for this alone."""
    for given in splits.corpus.given:
        texts = characters = 0
        for side, example in splits.every(given):
            if texts >= READ * TEXTS or characters >= READ * CHARACTERS:
                for name in splits.sides(given):
                    gathering.of(name).ended = False
                break
            texts, characters = texts + 1, characters + len(text_of(example))
            yield side, example


def overlap_between(gathered: dict[str, Gathered]) -> dict[str, Any]:
    """Everything that is counted between splits, as plain JSON."""
    numbering, names = Numbering(), tuple(gathered)
    words = {name: Worded.of(of.texts, numbering) for name, of in gathered.items()}
    return {
        "read": {name: of.read for name, of in gathered.items()},
        "pairs": [SplitLookup(gathered, words, *pair).counts() for pair in pairs_of(names)],
        "own": SplitLookup(gathered, words, "train", "train").near(),
        "short_runs": {name: short_runs(words[name], words["train"]) for name in names if name != "train"},
    }


def pairs_of(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each split with those that come before it: dev in train, test in train, test in dev."""
    return [(other, one) for one, other in combinations(names, 2)]


def short_runs(own: Worded, train: Worded) -> dict[str, Any]:
    """The short runs of a split with the smallest hashes, and how many of them are in train."""
    hashes = smallest(own.runs(training_text.RUN).hashes, SHORT_RUNS)
    return {"hashes": hashes.tolist(), "in_train": shared(hashes, train.runs(training_text.RUN).hashes)}


class SplitLookup:
    """One split looked up in another, or a sample of a split in the rest of it."""

    def __init__(self, found: dict[str, Gathered], words: dict[str, Worded], one: str, other: str):
        self.one, self.other, self.within = one, other, one == other
        self.mine, self.theirs, self.their_words = found[one], found[other], words[other]
        self.chosen = self.mine.chosen(queries(self.theirs.share))
        self.queries = words[one].middles(self.chosen)

    def counts(self) -> dict[str, Any]:
        mine, theirs = self.mine, self.theirs
        same = theirs.occurrences(mine.traces) > 0
        shown = np.flatnonzero(theirs.occurrences(np.array(mine.held, np.uint64)))
        asked = self.queries.runs(RUN).hashes
        return {
            "split": self.one,
            "in": self.other,
            "texts": len(mine.traces),
            "same": int(same.sum()),
            "same_share": float(mine.sizes[same].sum() / max(int(mine.sizes.sum()), 1)),
            "example": shortened(mine.texts[shown[0]]) if len(shown) else "",
            "near": self.near(),
            "runs": shared(asked, self.their_words.runs(RUN).hashes),
            "all_runs": len(asked),
            "passages": len(mine.passages & theirs.passages),
            "all_passages": len(mine.passages),
        }

    def near(self) -> dict[str, Any]:
        """Texts that are nearly one of the other split; equal ones are counted elsewhere, not here."""
        own = self.chosen if self.within else [-1] * len(self.chosen)
        matches = best_matches(self.queries, self.their_words, own)
        asked = np.array([self.mine.held[number] for number in self.chosen], np.uint64)
        often = self.theirs.occurrences(asked)
        judged = [at for at, n in enumerate(often) if matches.pairs[at] >= FEWEST and n <= self.within]
        near = [at for at in judged if matches.share[at] >= NEAR]
        pair = (
            (self.mine.texts[self.chosen[near[0]]], self.theirs.texts[matches.text[near[0]]]) if near else ()
        )
        return {
            "texts": len(judged),
            "near": len(near),
            "searched": self.theirs.share,
            "held": len(self.theirs.texts),
            "example": [shortened(text) for text in pair],
        }


def queries(share: float) -> int:
    """How many texts are looked up: the less of a split is held, the more, so that as many would be found."""
    return min(MOST_QUERIES, round(SAMPLE / share)) if share else SAMPLE


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
