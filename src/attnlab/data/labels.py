"""Labels: how a task reads them off its examples, and what those of a training split come to."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from attnlab.config.values import nearest
from attnlab.data.errors import DataError
from attnlab.data.example import Example

T = TypeVar("T")

ANSWER, NO_ANSWER = "with an answer", "without one"
"""The names of questions, by whether their passage holds an answer."""


@dataclass(frozen=True)
class Labels:
    """What is known of the labels of a training split: it travels with the model that learned them.

    `kind` is the name of their target. `names` and `counts` are of the classes, in the order of their
    numbers; `mean` and `deviation` are of numbers, over `examples` rows.
    """

    kind: str = "none"
    names: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    examples: int = 0
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Labels:
        """From a record."""
        tuples = {name: tuple(record[name]) for name in ("names", "counts")}
        return cls(**{**record, **tuples})

    def means_the_same(self, other: Labels) -> bool:
        """Whether a head's outputs stand for the same classes, or for numbers on the same scale."""
        mine, theirs = ((x.kind, x.names, x.mean, x.deviation) for x in (self, other))
        return mine == theirs

    @property
    def outputs(self) -> int:
        """The scores that a head gives for them: one for each class, or a number."""
        return len(self.names) or 1

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


class LabelForm:
    """What a label is: how a row holds it, and what the labels of a training split come to.

    The targets of tasks (attnlab.targets) are such forms. Here are the two that data needs without a task:
    no label at all, and one class.
    """

    name: str = "none"
    of_words: bool = False
    """Whether words are predicted, so that there is no label to read."""

    def draft(self, classes: int = 2) -> Labels:
        """Labels that were not read yet, of so many classes: to check a config by."""
        return Labels(self.name, examples=2)

    def summary(self, labels: Iterable[Any]) -> Labels:
        """What the labels of the training split come to."""
        return Labels()

    def names(self, label: Any) -> tuple[str, ...]:
        """The classes of an example, where it has some."""
        return ()

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        """What a row is told of a label, as fields of a Row."""
        return {}

    def stratum(self, label: Any) -> str:
        """The class that rows are drawn by in proportion; one for all where a row has no single class."""
        return ""


class NoLabels(LabelForm):
    """Words are predicted: labels, if there are any, are not read."""

    of_words = True


class ClassNames(LabelForm):
    """One class for each example, by its name; classes are sorted: numbers by value, words by alphabet."""

    name = "class"

    def draft(self, classes: int = 2) -> Labels:
        return Labels(self.name, tuple(map(str, range(classes))), (1,) * classes, 2)

    def summary(self, labels: Iterable[Any]) -> Labels:
        counts, rows = Counter[str](), 0
        for label in labels:
            counts.update(self.names(label))
            rows += 1
        names = sorted(counts, key=_by_value) if all(map(whole, counts)) else sorted(counts)
        return Labels(self.name, tuple(names), tuple(counts[name] for name in names), rows)

    def names(self, label: Any) -> tuple[str, ...]:
        return (label,) if isinstance(label, str) else tuple(label)

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        names = self.names(label)
        return {"label": known.number(names[0], place)} if names and known.names else {}

    def stratum(self, label: Any) -> str:
        return next(iter(self.names(label)), "")


@dataclass(frozen=True)
class LabelReader:
    """How the label of an example is read, and what it is. `identity` tells readers apart that give other
    labels, in the names of what is kept on disk."""

    form: LabelForm
    read: Callable[[Example], Any]
    identity: str

    def summary(self, examples: Iterable[Example]) -> Labels:
        """What the labels of some examples come to."""
        return self.form.summary(map(self.read, examples))

    def row(self, example: Example, known: Labels) -> dict[str, Any]:
        """What a row is told of an example's label."""
        return self.form.row(self.read(example), known, example.place)

    def stratum(self, example: Example) -> str:
        """The class of an example that training rows are drawn by."""
        return self.form.stratum(self.read(example))

    def check(self, known: Labels, example: Example) -> None:
        """Refuse an example whose label is not among those of the training split, or is no label at all."""
        for name in self.form.names(self.read(example)):
            known.number(name, example.place)


def most_frequent(counts: Mapping[T, int]) -> tuple[T, float]:
    """What there is most of, and its share: what a model that learned nothing scores."""
    name, count = max(counts.items(), key=lambda item: item[1])
    return name, count / sum(counts.values())


def _by_value(name: str) -> tuple[int, str]:
    return int(name), name


def whole(text: str) -> bool:
    """Whether a label is written as a whole number; thousands of digits are none that Python reads."""
    return re.fullmatch("-?[0-9]{1,18}", text) is not None


def twice_written(names: Iterable[str]) -> tuple[str, ...]:
    """Two names of one number, such as 1 and 1.0; nothing where there are none."""
    seen: dict[float, str] = {}
    for name in names:
        if is_number(name) and seen.setdefault(number_in(name), name) != name:
            return seen[number_in(name)], name
    return ()


def is_number(text: str) -> bool:
    try:
        return math.isfinite(number_in(text))
    except ValueError:
        return False


def number_in(text: str) -> float:
    """The number that a text is, with a decimal point or a decimal comma (3,5 and 1.250,75); a ValueError
    where it is none, or could be two: 1,250 is 1.25 to some and 1250 to others."""
    if not decimal_comma(text):
        return float(text)
    if re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", text):
        raise ValueError(f"{text} may be {text.replace(',', '.')} or {text.replace(',', '')}")
    return float(text.replace(".", "").replace(",", "."))


def decimal_comma(text: str) -> bool:
    """Whether a text is written as a number with a decimal comma."""
    return re.fullmatch(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+", text) is not None


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
        listed = ", ".join(names)
        raise DataError(f'The labels "{listed}"{at(example)} hold {what}; list each class once.')
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
        value = number_in(label) if isinstance(label, str) else math.nan
    except ValueError:
        if isinstance(label, str) and decimal_comma(label):
            raise DataError(
                f'The label "{label}"{at(example)} may be {label.replace(",", ".")} or '
                f"{label.replace(',', '')}; write numbers with a decimal point."
            ) from None
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f'The label "{label}"{at(example)} is not a number, and regression predicts one; correct it, or '
            "use task = classification."
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


WRITTEN = LabelReader(ClassNames(), as_written, "class")
"""Labels as they are read where no task says otherwise: to look at a corpus."""
UNREAD = LabelReader(NoLabels(), lambda example: None, "none")
