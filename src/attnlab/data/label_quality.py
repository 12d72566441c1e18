"""What is doubtful about labelled rows before anything is trained on them, each with its lines."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from attnlab.data.example import Example
from attnlab.data.labels import WRITTEN, decimal_comma, is_number
from attnlab.data.splits import trace

MOST = 1_000_000
"""Rows that are looked at."""
UNLABELLED = 1000
"""Rows without a label after which none is expected."""
SHOWN = 3
"""Examples of each kind that are kept."""
CLASSES, SHARE = 50, 0.1
"""Names up to which labels are classes, and their share of the rows."""


@dataclass(frozen=True)
class Spelling:
    """A class, how many rows have it, and where the first of them stands."""

    name: str
    rows: int
    place: str


@dataclass(frozen=True)
class Absent:
    """A split, and the classes that it has no row of, each with its rows in train."""

    split: str
    classes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class LabelledPlace:
    """Where a row stands, and its label."""

    place: str
    label: str


@dataclass(frozen=True)
class LabelQuality:
    """Doubtful rows of a corpus, all splits together; `shown` are the first of each kind."""

    rows: int
    spellings: tuple[tuple[Spelling, ...], ...] = ()
    """Classes that are one but for case, spaces and Unicode form."""
    absent: tuple[Absent, ...] = ()
    contradicting: int = 0
    """Rows whose text another row has with another label."""
    contradictions: tuple[tuple[LabelledPlace, ...], ...] = ()
    repeated: int = 0
    """Rows whose text and label an earlier row has."""
    repeats: tuple[tuple[str, str], ...] = ()
    decimal_commas: int = 0
    """Labels that are numbers with a decimal comma."""
    comma_example: str = ""


class RowDoubts:
    """Labelled rows while they are read."""

    def __init__(self) -> None:
        self.rows = self.repeated = self.decimal_commas = 0
        self.comma_example = ""
        self.first_place: dict[str, str] = {}
        self.counts = defaultdict[str, Counter[str]](Counter)
        self.seen: dict[int, dict[str, str]] = {}
        self.occurrences = Counter[int]()
        self.repeats: list[tuple[str, str]] = []

    def add(self, split: str, example: Example) -> None:
        written = WRITTEN.read(example)
        if not isinstance(written, str):
            return
        self.rows += 1
        self.first_place.setdefault(written, example.place)
        self.counts[split][written] += 1
        if decimal_comma(written):
            self.decimal_commas += 1
            self.comma_example = self.comma_example or written
        key = trace(example)
        places = self.seen.setdefault(key, {})
        self.occurrences[key] += 1
        if written not in places:
            places[written] = example.place
            return
        self.repeated += 1
        if len(self.repeats) < SHOWN:
            self.repeats.append((places[written], example.place))

    def quality(self, splits: Iterable[str]) -> LabelQuality:
        names = list(self.first_place)
        numbers = all(map(is_number, names)) and len(names) > CLASSES
        classes = not numbers and len(names) <= max(CLASSES, SHARE * self.rows)
        conflicts = [key for key, places in self.seen.items() if len(places) > 1]
        return LabelQuality(
            rows=self.rows,
            spellings=tuple(tuple(map(self.spelling, same)) for same in alike(names)) if classes else (),
            absent=tuple(self.absent(splits)) if classes else (),
            contradicting=sum(self.occurrences[key] for key in conflicts),
            contradictions=tuple(
                tuple(LabelledPlace(place, label) for label, place in self.seen[key].items())
                for key in conflicts[:SHOWN]
            ),
            repeated=self.repeated,
            repeats=tuple(self.repeats),
            decimal_commas=self.decimal_commas,
            comma_example=self.comma_example,
        )

    def spelling(self, name: str) -> Spelling:
        rows = sum(counts[name] for counts in self.counts.values())
        return Spelling(name, rows, self.first_place[name])

    def absent(self, splits: Iterable[str]) -> Iterator[Absent]:
        for split in splits:
            train = sorted(self.counts["train"].items(), key=lambda item: (-item[1], item[0]))
            classes = tuple((name, rows) for name, rows in train if not self.counts[split][name])
            if classes:
                yield Absent(split, classes)


def label_quality(sided: Iterable[tuple[str, Example]], splits: Iterable[str]) -> LabelQuality:
    """What is doubtful about rows, each given with the split that it is in."""
    doubts = RowDoubts()
    for number, (split, example) in enumerate(islice(sided, MOST)):
        if number == UNLABELLED and not doubts.rows:
            break
        doubts.add(split, example)
    return doubts.quality(splits)


def alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Names that are one but for case, spaces and Unicode form."""
    spellings = defaultdict[str, list[str]](list)
    for name in names:
        spellings["".join(unicodedata.normalize("NFKC", name).casefold().split())].append(name)
    return [tuple(same) for same in spellings.values() if len(same) > 1]
