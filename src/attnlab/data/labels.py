"""Labels: how a task reads them off its examples, and what those of a training split come to."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attnlab.config.values import nearest, without_middle
from attnlab.data.errors import DataError
from attnlab.data.example import Example

Kind = Literal["none", "class", "classes", "number", "pair", "answer", "tags"]
"""What a label is: nothing, one class, any number of classes, a number, the text that belongs to it, an
answer within a passage, or a tag for each word."""

ANSWER, NO_ANSWER = "with an answer", "without one"
"""The names of questions, by whether their passage holds an answer."""

MANY = 0.5
"""Different labels for each row from which on a column is hardly one of classes."""
FEW = 20
"""Rows among which as many labels may be different."""


SHOWN = 100
"""Characters of a class's name in a sentence: a column may hold whole texts."""


@dataclass(frozen=True)
class LabelReader:
    """How the label of an example is read: a name, several names, or a number. `identity` tells readers
    apart that give other labels, in the names of what is kept on disk."""

    kind: Kind
    read: Callable[[Example], Any]
    identity: str

    def names(self, example: Example) -> tuple[str, ...]:
        """The classes of an example."""
        found = self.read(example)
        return (found,) if isinstance(found, str) else tuple(found)

    def stratum(self, example: Example) -> str:
        """The class that rows are drawn by in proportion; one for all where a row has no single class."""
        return next(iter(self.names(example)), "") if self.kind in ("class", "answer") else ""


@dataclass(frozen=True)
class Labels:
    """What is known of the labels of a training split: it travels with the model that learned them.

    `names` and `counts` are of the classes, in the order of their numbers; `mean` and `deviation` are of
    numbers, over `examples` rows.
    """

    kind: Kind = "none"
    names: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    examples: int = 0
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, held: Mapping[str, Any]) -> Labels:
        """From a record."""
        tuples = {name: tuple(held[name]) for name in ("names", "counts")}
        return cls(**{**held, **tuples})

    def means_the_same(self, other: Labels) -> bool:
        """Whether a head's outputs stand for the same classes, or for numbers on the same scale."""
        mine, theirs = ((x.kind, x.names, x.mean, x.deviation) for x in (self, other))
        return mine == theirs

    @classmethod
    def draft(cls, kind: Kind, classes: int = 2) -> Labels:
        """Labels that were not read yet, of so many classes: to check a config by."""
        names = tuple(map(str, range(classes))) if kind in ("class", "classes", "tags") else ()
        names = (ANSWER, NO_ANSWER) if kind == "answer" else names
        return cls(kind, names, (1,) * len(names), 2)

    @property
    def outputs(self) -> int:
        """The scores that a head gives for them."""
        return len(self.names) if self.kind in ("class", "classes", "tags") else 1

    def number(self, name: str, place: str = "") -> int:
        """The number of a class."""
        if name not in self.names:
            at = f" at {place}" if place else ""
            raise DataError(
                f'The label "{name}"{at} occurs only outside the training split, which knows '
                f"{', '.join(self.names)}.{nearest(name, self.names)} Correct it, or give the "
                "training text rows with it; where the split was made, not given, more rows, another "
                "data.split_seed or smaller shares (data.dev_share, data.test_share) may bring it there."
            )
        return self.names.index(name)

    def check(self, reader: LabelReader, example: Example) -> None:
        """Refuse an example whose label is not among these, or is no label at all."""
        if self.kind in ("number", "pair"):
            reader.read(example)
            return
        for name in reader.names(example):
            self.number(name, example.place)

    def warnings(self) -> list[str]:
        """What a person should know before a model learns them."""
        return [
            f'The class "{without_middle(name, SHOWN)}" has {count} example of {self.examples:,} in the '
            "training split: a model can hardly learn it, and no score says whether it did. Give it more, or "
            "merge it with another."
            for name, count in zip(self.names, self.counts, strict=True)
            if count == 1 and self.kind != "answer"
        ]


def labels_of(reader: LabelReader, examples: Iterable[Example]) -> Labels:
    """What the labels of some examples come to. Classes are sorted: numbers by value, words by alphabet."""
    if reader.kind == "none":
        return Labels()
    if reader.kind == "pair":
        return Labels("pair", examples=sum(reader.read(example) is not None for example in examples))
    if reader.kind == "number":
        return _numbers(float(reader.read(example)) for example in examples)
    counts, rows = Counter[str](), 0
    if reader.kind == "answer":
        counts.update({ANSWER: 0, NO_ANSWER: 0})  # both are known, whichever there are
    for example in examples:
        counts.update(reader.names(example))
        rows += 1
    names = sorted(counts, key=_by_value) if all(map(whole, counts)) else sorted(counts)
    return Labels(reader.kind, tuple(names), tuple(counts[name] for name in names), rows)


def _numbers(values: Iterable[float]) -> Labels:
    held = list(values)
    mean = math.fsum(held) / max(1, len(held))
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in held) / max(1, len(held)))
    return Labels("number", examples=len(held), mean=mean, deviation=spread)


def _by_value(name: str) -> tuple[int, str]:
    return int(name), name


def whole(text: str) -> bool:
    """Whether a label is written as a whole number; thousands of digits are none that Python reads."""
    return re.fullmatch("-?[0-9]{1,18}", text) is not None


def refuse_unlearnable(labels: Labels, *, declared: bool) -> None:
    """Labels that teach nothing, or are hardly meant: before any tokenizer is trained on their text.

    `declared` says that a person named the classes (data.corpus.labels), so that they are meant.
    """
    if labels.kind == "number" and labels.deviation == 0:
        raise DataError(
            f"All {labels.examples:,} rows of the training split have the number {labels.mean:g}; there is "
            "nothing to learn. Name another column with data.corpus.label."
        )
    if labels.kind == "answer" and not labels.counts[labels.names.index(ANSWER)]:
        raise DataError(
            f"None of the {labels.examples:,} questions of the training split has an answer; there is "
            "nothing to learn. Name the column that holds them with data.corpus.answers (--answers COLUMN)."
        )
    if labels.kind not in ("class", "classes", "tags"):
        return
    if len(labels.names) < (1 if labels.kind == "classes" else 2):
        only = f' the label "{labels.names[0]}"' if labels.names else " no label"
        raise DataError(
            f"All {labels.examples:,} rows of the training split have{only}; a classifier needs at least two "
            "classes. Give rows of another class, or name another column with data.corpus.label."
        )
    if declared or labels.kind == "tags":
        return
    if len(labels.names) > max(FEW, MANY * labels.examples):
        raise DataError(
            f"The label column has {len(labels.names):,} different values in {labels.examples:,} rows, such "
            f'as "{labels.names[0]}": too many to be classes. Name another column with data.corpus.label; '
            "to predict a number use task = regression."
        )
    alike = twice_written(labels.names)
    if alike:
        raise DataError(
            f'The labels "{alike[0]}" and "{alike[1]}" are one number written in two ways, and would be two '
            "classes; write them alike."
        )
    words = [name for name in labels.names if not is_number(name)]
    if words and len(words) < len(labels.names):
        numbers = [name for name in labels.names if is_number(name)]
        raise DataError(
            f"The label column mixes numbers ({listed(numbers)}) and words ({listed(words)}): one class "
            "under two names would be two. Write them alike; if they are all classes, list them: "
            f"data.corpus.labels = [{', '.join(map(repr, labels.names[:3]))}, …]."
        )


def twice_written(names: Iterable[str]) -> tuple[str, ...]:
    """Two names of one number, such as 1 and 1.0; nothing where there are none."""
    seen: dict[float, str] = {}
    for name in names:
        if is_number(name) and seen.setdefault(float(name), name) != name:
            return seen[float(name)], name
    return ()


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def listed(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def tags_of(example: Example) -> tuple[str, ...]:
    """The tag of each word of an example."""
    if not example.words or not all(word.tag for word in example.words):
        raise DataError(
            f"An example{at(example)} has no tags, and the task learns one for each word; give CoNLL's "
            "columns (.conll), or .jsonl with tokens and tags, or with text and spans (start, end, label); "
            "name the column with data.corpus.tags where it has another name."
        )
    return tuple(word.tag for word in example.words)


# ---------------------------------------------------------------- readers


def class_of(example: Example) -> str:
    """The one class of an example."""
    label = given(example)
    if isinstance(label, tuple):
        raise DataError(
            f"The label{at(example)} is a list of {len(label)}, and classification takes one class for each "
            "text; use task = multilabel."
        )
    return label


def classes_of(example: Example, separator: str) -> tuple[str, ...]:
    """The classes of an example, a list or parted by the separator."""
    label = given(example)
    names = label if isinstance(label, tuple) else tuple(part.strip() for part in label.split(separator))
    if "" in names or len(set(names)) < len(names):
        what = "an empty name" if "" in names else "a name twice"
        held = ", ".join(names)
        raise DataError(f'The labels "{held}"{at(example)} hold {what}; list each class once.')
    return names


def answer_class(example: Example) -> str:
    """Whether a question has an answer in its passage."""
    if example.pair is None:
        raise DataError(
            f"An example{at(example)} has no passage, and the task is to answer questions from one; name the "
            "column that holds it with data.corpus.pair (--pair COLUMN)."
        )
    return ANSWER if example.answers else NO_ANSWER


def number_of(example: Example) -> float:
    """The number that an example is labelled with."""
    label = given(example)
    try:
        value = float(label) if isinstance(label, str) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f'The label "{label}"{at(example)} is no number, and regression predicts one; correct it, or use '
            "task = classification."
        )
    return value


def given(example: Example) -> str | tuple[str, ...]:
    if example.label is None:
        raise DataError(
            f"An example{at(example)} has no label, and the task learns labels; name the column that holds "
            "it with data.corpus.label (--label COLUMN), or choose another task."
        )
    return example.label


def at(example: Example) -> str:
    return f" at {example.place}" if example.place else ""


def as_written(example: Example) -> str | tuple[str, ...]:
    """The label of an example as one name, and none where it has none."""
    label = example.label
    return ", ".join(label) if isinstance(label, tuple) else label or ()


WRITTEN = LabelReader("class", as_written, "class")
"""Labels as they are read where no task says otherwise: to look at a corpus."""
UNREAD = LabelReader("none", lambda example: None, "none")
