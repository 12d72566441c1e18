"""Train, dev and test: given, or made so that no row ever changes sides."""

from __future__ import annotations

import functools
import hashlib
import random
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from attnlab.config.streams import stream_seed
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.errors import DataError
from attnlab.data.example import Example

SPLITS = ("train", "dev", "test")
HELD = 4_000_000
"""Characters of a text that is held at most."""


@dataclass(frozen=True)
class Splits:
    """The splits of a corpus. Those it does not bring are taken from "train", by a hash of the text.

    A row's side depends on the seed and on itself alone: rows added later change nothing for the
    others, equal texts are never on both sides, and neither are questions about the same passage.
    """

    corpus: Corpus
    dev_share: float = 0.05
    test_share: float = 0.05
    seed: int = 0
    _held: dict[str, list[tuple[str, Example]]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(s for s in SPLITS if s in self.corpus.given or s in self.made)

    @functools.cached_property
    def made(self) -> dict[str, float]:
        """The splits that are taken from "train", and their shares of it."""
        shares = {"dev": self.dev_share, "test": self.test_share}
        return {s: share for s, share in shares.items() if share and s not in self.corpus.given}

    def read(self, split: str) -> Iterator[Example]:
        if split not in self.names:
            raise DataError(
                f'There is no split "{split}": it is not given and its share is 0. '
                f"There are {', '.join(self.names)}; set data.{split}_share to make it."
            )
        if split != "train" and split in self.corpus.given:
            yield from self.corpus.read(split)
            return
        any_read = False
        for side, example in self._sided("train"):
            if side == split:
                any_read = True
                yield example
        if not any_read:
            other = " and ".join(f"data.{name}_share" for name in self.made)
            shares = f"Lower {other}" if split == "train" else f"Raise data.{split}_share"
            raise DataError(
                f'No text was assigned to the split "{split}": the corpus has too few separate texts. '
                f"{shares}, take the text in smaller parts "
                "(data.corpus.unit = line or sentence), or give the split a file of its own."
            )

    def every(self, *given: str) -> Iterator[tuple[str, Example]]:
        """All examples of given splits (of all, without names) with the splits that they are in, in one
        reading, the training text last; a split may stay empty."""
        for name in sorted(given or self.corpus.given, key="train".__eq__):
            yield from self._sided(name)

    def _sided(self, given: str) -> Iterator[tuple[str, Example]]:
        """The examples of a given split with their sides. A small text is divided once, and held: a tokenizer
        is trained on it, then it is encoded."""
        if given in self._held:
            yield from self._held[given]
            return
        texts, characters = list[tuple[str, Example]](), 0
        for example in self.corpus.read(given):
            side = self.side(example) if given == "train" else given
            characters += example.size
            if characters <= HELD:
                texts.append((side, example))
            yield side, example
        if characters <= HELD:
            self._held[given] = texts

    def sides(self, given: str) -> tuple[str, ...]:
        """The splits that the examples of a given one are in."""
        return tuple(s for s in self.names if s in ("train", *self.made)) if given == "train" else (given,)

    def side(self, example: Example) -> str:
        """Which split an example of "train" belongs to."""
        made = self.made
        test, dev = made.get("test", 0.0), made.get("dev", 0.0)
        place = fraction(key_of(example), self.seed)
        return "test" if place < test else "dev" if place < test + dev else "train"


def key_of(example: Example) -> str:
    """What must stay together: the group, else the picture, the passage or the text."""
    if example.image is not None and not example.group:
        return example.image.digest
    return example.group or example.pair or example.text


def fraction(key: str, seed: int) -> float:
    """A number in [0, 1) that depends on the key and the seed alone."""
    digest = hashlib.sha256(f"{seed}\x1f{key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def trace(example: Example) -> int:
    """64 bits that tell examples apart, case and white space aside: for counting what occurs twice."""
    picture = () if example.image is None else (example.image.digest,)
    return trace_of(example.text, example.pair or "", example.target or "", *picture)


def passage_trace(example: Example) -> int | None:
    """The same for what must stay in one split; None for a text that stands for itself."""
    together = example.group or example.pair or example.image
    return trace_of(key_of(example)) if together else None


def trace_of(*parts: str) -> int:
    text = "\x1f".join(" ".join(part.casefold().split()) for part in parts)
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


# ---------------------------------------------------------------- a few rows of many
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
    for row, class_ in enumerate(classes):
        members[class_].append(row)
    return [
        (((place + 0.5) / len(rows) if place else 0.0, lots[row]), row)
        for rows in members.values()
        for place, row in enumerate(sorted(rows, key=lots.__getitem__))
    ]
