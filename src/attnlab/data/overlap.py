"""What splits share: equal texts, nearly equal ones, runs of words, passages. Of the text alone, whatever
tokenizer, encoding or length it is read with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from itertools import combinations
from typing import Any

from attnlab.data.example import Example
from attnlab.data.ngrams import FEWEST, Numbering, Worded, best_matches, shared
from attnlab.data.splits import Splits, passage_trace, trace
from attnlab.data.tokenizers import training_text
from attnlab.data.tokenizers.training_text import smallest

TEXTS, CHARACTERS = 100_000, 8_000_000
"""Of each split at most so many are read: enough to see that splits share what they should not."""
SAMPLE = 500
"""Texts of each split that are looked up in the others."""
RUN = 13
"""Words that two texts hardly share by chance."""
SHORT_RUNS = 20_000
"""Runs of each split by which the text that a tokenizer was trained on is known again."""
NEAR = 0.6
"""From this share of its pairs of words on a text is nearly another one."""
SHOWN = 100


@dataclass
class Gathered:
    """What was read of a split. `sample` holds the texts with the smallest traces: a fair choice, always the
    same."""

    traces: list[int] = field(default_factory=list)
    passages: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    sample: list[tuple[int, int]] = field(default_factory=list)  # minus the trace, and the text's number
    characters: int = 0

    @property
    def full(self) -> bool:
        return len(self.texts) >= TEXTS or self.characters >= CHARACTERS

    def add(self, example: Example) -> None:
        text = " ".join(part for part in (example.text, example.pair, example.target) if part is not None)
        entry = -trace(example), len(self.texts)
        self.traces.append(-entry[0])
        if (passage := passage_trace(example)) is not None:
            self.passages.add(passage)
        self.texts.append(text)
        self.characters += len(text)
        if len(self.sample) < SAMPLE:
            heappush(self.sample, entry)
        else:
            heappushpop(self.sample, entry)

    @property
    def chosen(self) -> list[int]:
        return sorted(number for _, number in self.sample)


def gather(splits: Splits) -> dict[str, Gathered]:
    """The first texts of each split, as many as are read at most."""
    found = {name: Gathered() for name in splits.names}
    for given in splits.corpus.given:
        for example in splits.corpus.read(given):
            side = found[splits.side(example) if given == "train" else given]
            if not side.full:
                side.add(example)
            elif given != "train" or side is found["train"]:
                break
    return found


def overlap_of(splits: Splits) -> dict[str, Any]:
    """Everything that is counted between splits, as plain JSON."""
    found, numbering = gather(splits), Numbering()
    words = {name: Worded.of(of.texts, numbering) for name, of in found.items()}
    return {
        "texts": {name: of.traces for name, of in found.items()},
        "read": {name: {"texts": len(of.texts), "all": not of.full} for name, of in found.items()},
        "pairs": [SplitLookup(found, words, *pair).counts() for pair in pairs_of(splits.names)],
        "own": SplitLookup(found, words, "train", "train").near(),
        "short_runs": {
            name: short_runs(words[name], words["train"]) for name in splits.names if name != "train"
        },
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
        self.chosen = self.mine.chosen
        self.queries = words[one].middles(self.chosen)

    def counts(self) -> dict[str, Any]:
        known = set(self.theirs.traces)
        same = [number for number, own in enumerate(self.mine.traces) if own in known]
        asked = self.queries.runs(RUN).hashes
        return {
            "split": self.one,
            "in": self.other,
            "texts": len(self.mine.texts),
            "same": len(same),
            "same_share": sum(len(self.mine.texts[n]) for n in same) / max(self.mine.characters, 1),
            "example": shortened(self.mine.texts[same[0]]) if same else "",
            "near": self.near(),
            "runs": shared(asked, self.their_words.runs(RUN).hashes),
            "all_runs": len(asked),
            "passages": len(self.mine.passages & self.theirs.passages),
            "all_passages": len(self.mine.passages),
        }

    def near(self) -> dict[str, Any]:
        """Texts that are nearly one of the other split; equal ones are counted elsewhere, not here."""
        own = self.chosen if self.within else [-1] * len(self.chosen)
        matches = best_matches(self.queries, self.their_words, own)
        often = Counter(self.theirs.traces)
        judged = [
            at
            for at, number in enumerate(self.chosen)
            if matches.pairs[at] >= FEWEST and often[self.mine.traces[number]] <= self.within
        ]
        near = [at for at in judged if matches.share[at] >= NEAR]
        pair = (
            (self.mine.texts[self.chosen[near[0]]], self.theirs.texts[matches.text[near[0]]]) if near else ()
        )
        return {"texts": len(judged), "near": len(near), "example": [shortened(text) for text in pair]}


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
