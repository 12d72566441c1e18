"""A tag for each word of a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attnlab.data.example import Example
from attnlab.data.labels import Labels, most_frequent
from attnlab.metrics.metric import Examples
from attnlab.metrics.tags import EntityF1, TagAccuracy, by_label, labels_of_tags
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value
from attnlab.targets.classes import NamedTarget
from attnlab.targets.report import (
    WRONG,
    MajorityShare,
    Mistake,
    PredictingTask,
    TargetReport,
    shown,
)
from attnlab.targets.target import Row, Said, finding


class TaggingTask(Protocol):
    """What is counted of a text: its words by their tags, and the entities that these make."""

    def counts(self, right: NDArray[np.int64], guesses: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]: ...


class TagTarget(NamedTarget):
    """A tag for each word. By the scores of a word's first token, or by the mean over its tokens."""

    name = "tags"
    columns = ("text", "tags")
    by_token = True
    told_by_words = True

    def __init__(self, *, first_piece: bool = True):
        self.first_piece = first_piece

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        return {}  # the encoding places each tag at its word

    def stratum(self, label: Any) -> str:
        return ""

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        super().refuse(labels, declared=True)  # tags are never a column that was meant otherwise

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        """Σ over words of log Σ e^s − s_tag, by scores (T,C)."""
        words, tags = (row[name][row["real"]].tolist() for name in ("words", "targets"))
        total = scores.new_zeros(())
        for place, tag in enumerate(tags):
            if tag < 0:
                continue
            own = [n for n, word in enumerate(words) if word == words[place]]
            mean = scores[own[:1] if self.first_piece else own].mean(0)
            total = total + mean.logsumexp(-1) - mean[tag]
        return total

    def majority(self, examples: Examples, labels: Labels) -> Finding:
        """Accuracy over words against that of always giving the most frequent tag."""
        true = counted(examples)[1]
        if (true > 0).sum() < 2:
            return finding("majority", Outcome.NOT_APPLICABLE, "one_label")
        accuracy, (_, most) = TagAccuracy().interval(examples), most_frequent(dict(enumerate(true.tolist())))
        values: dict[str, Value] = {"accuracy": accuracy.value, "low": accuracy.low, "high": accuracy.high}
        values |= {"share": most, "words": int(true.sum()), "texts": len(examples)}
        if accuracy.low > most or accuracy.value == 1:
            return finding("majority", Outcome.PASS, "better_than_tag", accuracy.value - most, **values)
        return finding("majority", Outcome.FAIL, "most_frequent_tag", accuracy.value - most, **values)

    def collapse(self, examples: Examples, labels: Labels) -> Finding:
        """Whether entities are predicted at all."""
        _, true, predicted = (int(n) for n in EntityF1().parts(examples).sum(0))
        if not true:
            return finding("collapse", Outcome.NOT_APPLICABLE, "nothing_to_find")
        outcome, kind = (Outcome.PASS, "entities") if predicted else (Outcome.FAIL, "no_entities")
        invalid = int(np.sum(examples["invalid"]))
        values: dict[str, Value] = {"predicted": predicted, "there": true, "invalid": invalid}
        return finding("collapse", outcome, kind, float(predicted), **values)

    def bag_of_words(self, task: PredictingTask, train: Sequence[Example]) -> Said:
        """The most frequent tag of each word, and for a word that train lacks the most frequent of all."""
        numbers = {name: number for number, name in enumerate(task.labels.names)}
        seen, every = dict[str, Counter[str]](), Counter[str]()
        for text in train:
            for word, tag in zip(words_of(text), task.label_of(text), strict=True):
                seen.setdefault(word, Counter())[tag] += 1
                every[tag] += 1
        usual = {word: most_frequent(tags)[0] for word, tags in seen.items()}
        other = most_frequent(every)[0]

        def said(texts: Sequence[Example]) -> Examples:
            rows = []
            for text in texts:
                right = np.array([numbers[tag] for tag in task.label_of(text)])
                guesses = np.array([numbers[usual.get(word, other)] for word in words_of(text)])
                rows.append(cast(TaggingTask, task).counts(right, guesses))
            return Examples({name: np.stack([row[name] for row in rows]) for name in rows[0]})

        return said

    def report(self, task: PredictingTask, texts: Sequence[Example], examples: Examples) -> TargetReport:
        names = task.labels.names
        most, share = most_frequent(dict(enumerate(counted(examples)[1].tolist())))
        return TargetReport(
            majority=MajorityShare(names[most], share),
            classes=tuple(by_label(examples, labels_of_tags(names))),
            mistakes=most_wrong(texts, examples),
            checks=tuple(self.findings(examples, task.labels)),
        )


def words_of(example: Example) -> list[str]:
    """The words of a text that has tags."""
    return [example.text[word.start : word.end] for word in example.words or ()]


def most_wrong(texts: Sequence[Example], examples: Examples) -> tuple[Mistake, ...]:
    """The texts with most wrong tags."""
    right, true, _ = examples["tag_counts"].reshape(len(examples), 3, -1).sum(2).T
    wrong = true - right
    order = [int(n) for n in np.argsort(-wrong, kind="stable")[:WRONG] if wrong[n] > 0]
    counts = [(texts[n], f"{int(true[n])} words", f"{int(wrong[n])} wrong") for n in order]
    return tuple(Mistake(text.place, shown(text), words, guess) for text, words, guess in counts)


def counted(examples: Examples) -> NDArray[np.float64]:
    """(3,C) over all texts, by tag: words that are right, that have it, and that are given it."""
    counts: NDArray[np.float64] = examples["tag_counts"].sum(0).reshape(3, -1)
    return counts
