"""One class for each text, or any number of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.config.values import without_middle
from attnlab.data.errors import DataError
from attnlab.data.labels import ClassNames, Labels, is_number
from attnlab.targets.target import Row, Target, entropy

MANY = 0.5
"""Different labels for each row from which on a column is hardly one of classes."""
FEW = 20
"""Rows among which as many labels may be different."""
SHOWN = 100
"""Characters of a class's name in a sentence: a column may hold whole texts."""


class ClassTarget(ClassNames, Target):
    """One of several classes."""

    least = 2
    """Classes that there is something to learn with."""

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        if len(labels.names) < self.least:
            only = f' the label "{labels.names[0]}"' if labels.names else " no label"
            raise DataError(
                f"All {labels.examples:,} rows of the training split have{only}; a classifier needs at least "
                "two classes. Give rows of another class, or name another column with data.corpus.label."
            )
        if not declared:
            refuse_unmeant(labels)

    def warnings(self, labels: Labels) -> list[str]:
        return [
            f'The class "{without_middle(name, SHOWN)}" has {count} example of {labels.examples:,} in the '
            "training split: a model can hardly learn it, and no score says whether it did. Give it more, or "
            "merge it with another."
            for name, count in zip(labels.names, labels.counts, strict=True)
            if count == 1
        ]

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        return scores.logsumexp(-1) - scores[row["targets"]]

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        return entropy(given, targets.tolist())

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        return labels.names[truth["label"]]


class SetTarget(ClassTarget):
    """Any number of classes, each decided by itself."""

    name = "classes"
    least = 1

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        numbers = [known.number(name, place) for name in self.names(label)]
        return {"labels": [int(number in numbers) for number in range(len(known.names))]}

    def stratum(self, label: Any) -> str:
        return ""

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        return (torch.log1p(scores.exp()) - scores * row["targets"]).sum()

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        return sum(entropy(given, column.tolist()) for column in targets.T)

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        flags = zip(labels.names, truth["labels"], strict=True)
        return ", ".join(name for name, there in flags if there) or "none"


def refuse_unmeant(labels: Labels) -> None:
    """Refuse a column that hardly holds classes."""
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


def listed(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
