"""What is in a corpus, before anything is trained on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.data.batching import BATCHING
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.dataset import Dataset
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.images.survey import (
    PictureSurvey,
    SharedPictures,
    duplicates_in,
    shared_pictures,
    survey,
)
from attnlab.data.label_quality import LabelQuality, label_quality
from attnlab.data.labels import WRITTEN, most_frequent
from attnlab.data.loader import Loader
from attnlab.data.rows import Rows
from attnlab.data.splits import passage_trace, trace
from attnlab.data.tokenizers.tokenizer import Tokenizer

QUANTILES = (0, 0.25, 0.5, 0.75, 0.95, 1)
Progress = Callable[[int, float | None], None]
"""Is given the rows that were counted, and the share of the text that has been read."""


@dataclass
class SplitReport:
    """One split, counted."""

    rows: int = 0
    characters: int = 0
    duplicates: int = 0
    classes: dict[str, int] = field(default_factory=dict)
    without_answer: int = 0
    lengths: list[int] = field(default_factory=list)
    cuts: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    unknown: int = 0

    @property
    def majority(self) -> tuple[str, float] | None:
        """The largest class and its share: what a model that learned nothing scores."""
        return most_frequent(self.classes) if self.classes else None

    @property
    def labelled(self) -> int:
        """Rows with a label: what all shares of classes are of."""
        return sum(self.classes.values())


@dataclass(frozen=True)
class SampleRow:
    """An encoded row: its tokens one by one, and the whole as text.

    `answer` is empty where a question has none in this row, None where nothing is asked;
    `window` counts the rows of one question from 1 to `windows`.
    """

    tokens: list[str]
    special: list[bool]
    text: str
    label: str | None
    answer: str | None
    window: int
    windows: int

    @property
    def windowed(self) -> bool:
        """Whether this row holds a part of its question's passage only."""
        return self.windows > 1


@dataclass(frozen=True)
class Shared:
    """How many of a split's passages, or groups, are in another split too."""

    count: int
    of: int
    what: str


@dataclass(frozen=True)
class Report:
    """Everything that `attnlab data inspect` shows."""

    splits: dict[str, SplitReport]
    made: dict[str, float]
    overlap: dict[tuple[str, str], int]
    passages: dict[tuple[str, str], Shared]
    waste: dict[str, float | str]
    samples: list[SampleRow]
    skipped: int
    length: int
    vocabulary: int
    trained_on: str  # the text of the tokenizer; empty where that was trained elsewhere
    encoding: str
    quality: LabelQuality
    separators: dict[Path, str]
    pictures: dict[str, PictureSurvey] = field(default_factory=dict)
    shared_pictures: dict[tuple[str, str], SharedPictures] = field(default_factory=dict)
    picture_duplicates: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        values["separators"] = {str(file): separator for file, separator in self.separators.items()}
        if not self.pictures:
            for name in ("pictures", "shared_pictures", "picture_duplicates"):
                del values[name]
        for part in ("overlap", "passages", *(["shared_pictures"] if self.pictures else [])):
            values[part] = {" and ".join(pair): value for pair, value in values[part].items()}
        for name, split in self.splits.items():
            shown = values["splits"][name]
            shown["lengths"] = quantiles(split.lengths)
            shown["histogram"] = [asdict(b) for b in histogram(split.lengths)]
            shown["majority"] = split.majority and {"label": split.majority[0], "share": split.majority[1]}
        return values


def fitting_encoding(corpus: Corpus) -> str:
    """The encoding that uses all that the examples hold."""
    first = next(corpus.read("train"), Example(""))
    if first.image is not None:
        return "image_translation" if first.target is not None else "image_text" if first.text else "image"
    if first.pair is not None and any(e.answers for e in islice(corpus.read("train"), 1000)):
        return "question"
    if first.target is not None:
        return "translation"
    if first.pair is not None:
        return "pair"
    return "document" if first.label is None else "single"


def inspected(dataset: Dataset, *, samples: int = 3, progress: Progress | None = None) -> Report:
    """Count, tokenise and batch a corpus, and report on it; `progress` is given how far the count is."""
    counts = counted(dataset, progress or unheard)
    splits = {name: count.report for name, count in counts.items()}
    pairs = {(a, b): (counts[a], counts[b]) for a, b in combinations(counts, 2)}
    for name, report in splits.items():
        report.tokens = sum(int(lengths.sum()) for lengths in dataset.rows(name).sizes)
        report.cuts = asdict(dataset.cuts[name])
    return Report(
        splits=splits,
        made={name: share for name, share in dataset.splits.made.items() if name in splits},
        overlap={names: len(a.traces.keys() & b.traces.keys()) for names, (a, b) in pairs.items()},
        passages={names: shared(a, b) for names, (a, b) in pairs.items() if b.passages},
        waste=wastes(dataset),
        samples=[sample(dataset, row) for row in range(min(samples, len(dataset.rows("train"))))],
        skipped=dataset.corpus.skipped,
        length=dataset.settings.length,
        vocabulary=dataset.tokenizer.size,
        trained_on=dataset.tokenizer.text.source if dataset.tokenizer.text else "",
        encoding=dataset.settings.encoding.kind,
        quality=label_quality(dataset.splits.every(), splits),
        separators=dataset.corpus.separators(),
        **picture_parts(dataset, list(splits)),
    )


def picture_parts(dataset: Dataset, splits: Sequence[str]) -> dict[str, Any]:
    """What a report says of pictures; nothing where rows have none."""
    if not dataset.rows("train").has("pixels"):
        return {}
    surveys = {name: survey(dataset.examples(name)) for name in splits}
    rows = {name: dataset.rows(name) for name in splits}
    return {
        "pictures": {name: known for name, known in surveys.items() if known is not None},
        "shared_pictures": {(a, b): shared_pictures(rows[b], rows[a]) for a, b in combinations(splits, 2)},
        "picture_duplicates": {name: duplicates_in(rows[name]) for name in splits},
    }


class Count:
    """One split while it is counted, and how often each of its texts occurs."""

    def __init__(self) -> None:
        self.report = SplitReport()
        self.traces, self.classes = Counter[int](), Counter[str]()
        self.passages, self.grouped, self.pictured = set[int](), False, False

    def add(self, example: Example) -> None:
        report = self.report
        report.rows += 1
        report.characters += sum(len(text) for text in texts(example))
        report.without_answer += example.pair is not None and not example.answers and not example.label
        self.traces[trace(example)] += 1
        self.grouped |= example.group is not None
        self.pictured |= example.image is not None
        if (passage := passage_trace(example)) is not None:
            self.passages.add(passage)
        self.classes.update(WRITTEN.form.names(WRITTEN.read(example)))

    def tokenise(self, examples: Sequence[Example], tokenizer: Tokenizer) -> None:
        unknown, report = tokenizer.specials.unknown, self.report
        ids = tokenizer.encode_many([text for example in examples for text in texts(example)])
        sizes = iter(map(len, ids))
        report.lengths += [sum(next(sizes) for _ in texts(example)) for example in examples]
        report.unknown += sum(row.count(unknown) for row in ids) if unknown is not None else 0

    def join(self, other: Count) -> None:
        """Count what another has counted, too."""
        mine, theirs = self.report, other.report
        for name in ("rows", "characters", "without_answer", "unknown"):
            setattr(mine, name, getattr(mine, name) + getattr(theirs, name))
        mine.lengths += theirs.lengths
        self.traces.update(other.traces)
        self.classes.update(other.classes)
        self.passages |= other.passages
        self.grouped |= other.grouped
        self.pictured |= other.pictured

    def close(self) -> None:
        self.report.duplicates = self.report.rows - len(self.traces)
        self.report.classes = dict(self.classes.most_common())


def shared(one: Count, other: Count) -> Shared:
    """What of the other split must stay together, and is in this one too."""
    what = "groups" if other.grouped else "pictures" if other.pictured else "passages"
    return Shared(len(one.passages & other.passages), len(other.passages), what)


def unheard(rows: int, share: float | None) -> None:
    """Nobody asks how far it is."""


class Counting:
    """Sees the texts of a reading (reading.py), and counts them by split."""

    def __init__(self, dataset: Dataset, progress: Progress):
        self.dataset, self.progress = dataset, progress
        self.counts = {name: Count() for name in dataset.splits.names}
        self.tokenizer = dataset.tokenizer

    def look(self, split: str, first: int, chunk: Sequence[Example]) -> Count:
        count = Count()
        for example in chunk:
            count.add(example)
        count.tokenise(chunk, self.tokenizer)
        return count

    def take(self, split: str, chunk: Sequence[Example], found: Count) -> None:
        self.counts[split].join(found)
        self.progress(
            sum(count.report.rows for count in self.counts.values()), self.dataset.corpus.share_read
        )


def counted(dataset: Dataset, progress: Progress = unheard) -> dict[str, Count]:
    """Every split that has any text, counted in one reading, in which it is encoded, too."""
    counting = Counting(dataset, progress)
    dataset.read_for(counting)
    for count in counting.counts.values():
        count.close()
    return {name: count for name, count in counting.counts.items() if count.report.rows}


def texts(example: Example) -> Iterator[str]:
    return (text for text in (example.text, example.pair, example.target) if text is not None)


def wastes(dataset: Dataset) -> dict[str, float | str]:
    """The share of padding under each batching, or why it does not apply."""
    rows, shares = dataset.rows("train"), dict[str, float | str]()
    for kind in BATCHING:
        batching = BATCHING.build(kind, length=dataset.settings.length)
        try:
            loader = Loader(rows, batching, seed=0, pad=dataset.tokenizer.pad, side=dataset.settings.padding)
            shares[kind] = loader.waste()
        except DataError:
            shares[kind] = "not for rows with a label, answer or target"
    return shares


def sample(dataset: Dataset, row: int) -> SampleRow:
    rows, tokenizer = dataset.rows("train"), dataset.tokenizer
    ids = [
        *rows.ragged("ids", row).tolist(),
        *(rows.ragged("target", row).tolist() if rows.has("target") else ()),
    ]
    patches = rows.ragged("patch", row).tolist() if rows.has("patch") else ()
    read = readable(ids, patches, lambda token: shown(tokenizer, token))
    special = {number for number in vars(tokenizer.specials).values() if number is not None}
    first, last = window_rows(rows, row)
    return SampleRow(
        tokens=[text for _, text in read],
        special=[ids[place] in special for place, _ in read],
        text=tokenizer.decode(ids),
        label=dataset.labels.names[rows.scalar("label", row)] if rows.has("label") else None,
        answer=answer_of(rows, row, tokenizer),
        window=row - first + 1,
        windows=last - first + 1,
    )


def readable(ids: Sequence[int], patches: Sequence[int], text: Callable[[int], str]) -> list[tuple[int, str]]:
    """The place and the text of each token. `patches` numbers those of pictures from 1, 0 for words: a
    picture is one entry, where its first patch is."""
    numbers = [*patches, *[0] * (len(ids) - len(patches))]
    count = f"[{sum(map(bool, numbers))} patches]"
    entries = enumerate(zip(ids, numbers, strict=True))
    return [(place, count if number else text(i)) for place, (i, number) in entries if number < 2]


def window_rows(rows: Rows, row: int) -> tuple[int, int]:
    """The first and last row of the question that a row is of; rows of other kinds are not windows."""
    first = last = row
    if not rows.has("start"):
        return first, last
    number = rows.scalar("example", row)
    while first and rows.scalar("example", first - 1) == number:
        first -= 1
    while last + 1 < len(rows) and rows.scalar("example", last + 1) == number:
        last += 1
    return first, last


def answer_of(rows: Rows, row: int, tokenizer: Tokenizer) -> str | None:
    """The answer as the row's tokens hold it."""
    if not rows.has("start"):
        return None
    start, end = rows.scalar("start", row), rows.scalar("end", row)
    return tokenizer.decode(rows.ragged("ids", row)[start : end + 1].tolist()).strip() if end else ""


def shown(tokenizer: Tokenizer, number: int) -> str:
    """A token as a person reads it: its text, or its name where it is no whole text."""
    text = tokenizer.decode([number], specials=True)
    return tokenizer.token(number) if not text or "\ufffd" in text else text


@dataclass(frozen=True)
class Bin:
    """How many lengths lie from `first` to `last`, both included."""

    first: int
    last: int
    count: int

    @property
    def label(self) -> str:
        return f"{self.first}–{self.last}" if self.last > self.first else str(self.first)


def histogram(lengths: list[int], bins: int = 12) -> list[Bin]:
    """Lengths in bins of equal and round width; the last one holds the long tail, if there is one.

    Few lengths make few bins, and none lies before the shortest length.
    """
    if not lengths:
        return []
    values = np.array(lengths)
    tail = max(1, int(np.quantile(values, 0.98)))
    bins = min(bins, math.ceil(math.sqrt(len(values))))
    width = round_up(max(1, (tail - int(values.min()) + 1) / bins))
    edges = [*range(int(values.min()) // width * width, tail + 1, width)]
    counts = [int(((values >= e) & (values < e + width)).sum()) for e in edges]
    made = [Bin(e, e + width - 1, n) for e, n in zip(edges, counts, strict=True)]
    beyond = int((values >= edges[-1] + width).sum())
    return [*made, Bin(edges[-1] + width, int(values.max()), beyond)] if beyond else made


def round_up(value: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, …"""
    power = 10 ** math.floor(math.log10(value))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= value))


def quantiles(lengths: list[int]) -> dict[str, int]:
    names = ("shortest", "quarter", "median", "three quarters", "95%", "longest")
    values = np.quantile(lengths or [0], QUANTILES)
    return {name: int(value) for name, value in zip(names, values, strict=True)}
