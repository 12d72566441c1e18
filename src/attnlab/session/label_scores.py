"""What a model that predicts labels does on a split: classes one by one, and its worst mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlab.checks.predictions import judge_examples
from attnlab.data.example import Example
from attnlab.metrics.classes import predicted
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import collapse_sentence
from attnlab.tasks.task import Task

WRONG = 10
"""Mistakes that are shown."""
SHOWN = 160
"""Characters of a text that are shown."""


def of_labels(task: Task, texts: Sequence[Example], examples: Examples) -> dict[str, Any]:
    """All that is told of the labels of these texts beside the metrics."""
    result: dict[str, Any] = {"mistakes": mistakes(task, texts, examples)}
    if task.target.name == "class":
        result |= {"majority": majority(task, examples), "classes": classes(task, examples)}
        result["confusion"] = {"names": list(task.labels.names), "counts": confusion(examples).tolist()}
    read = [f"{one.text} {one.pair or ''}".strip() for one in texts]
    if found := judge_examples(task, examples, read):
        result |= {"checks": [one.as_json() for one in found], "collapsed": collapse_sentence(found)}
    return result


def majority(task: Task, examples: Examples) -> dict[str, Any]:
    """The most frequent class, and what always saying it would give."""
    number, count = Counter(examples["label"].tolist()).most_common(1)[0]
    return {"label": task.labels.names[number], "share": count / len(examples)}


def confusion(examples: Examples) -> np.ndarray:
    """(C,C) how often each class (row) was called each (column)."""
    size = examples["probabilities"].shape[1]
    found = np.zeros((size, size), np.int64)
    np.add.at(found, (examples["label"], predicted(examples)), 1)
    return found


def classes(task: Task, examples: Examples) -> list[dict[str, Any]]:
    """Each class: how many there are, and the precision, recall and F1 of its predictions."""
    counts = confusion(examples)
    right, there, said = counts.diagonal(), counts.sum(1), counts.sum(0)
    return [
        {
            "name": name,
            "examples": int(there[number]),
            "predicted": int(said[number]),
            "precision": share(right[number], said[number]),
            "recall": share(right[number], there[number]),
            "f1": share(2 * right[number], there[number] + said[number]),
        }
        for number, name in enumerate(task.labels.names)
    ]


def share(part: int, whole: int) -> float | None:
    """part / whole; nothing where there is no whole."""
    return float(part / whole) if whole else None


def mistakes(task: Task, texts: Sequence[Example], examples: Examples) -> list[dict[str, Any]]:
    """The wrong classes that the model was surest of; of several labels or numbers the largest losses."""
    wrong = np.flatnonzero(is_wrong(task, examples))
    sure = examples["probabilities"].max(1) if task.target.name == "class" else examples["nats"]
    order = wrong[np.argsort(-sure[wrong], kind="stable")][:WRONG]
    columns = {name: column[order] for name, column in examples.columns.items()}
    said = task.predictions(columns, [texts[number] for number in order])
    return [
        {
            "place": texts[number].place,
            "text": shown(texts[number]),
            "label": task.label_of(texts[number]),
            "prediction": one.answer,
            "confidence": one.confidence,
        }
        for number, one in zip(order.tolist(), said, strict=True)
    ]


def is_wrong(task: Task, examples: Examples) -> np.ndarray:
    """(n) which predictions are not what was right; of numbers all are, more or less."""
    if task.target.name == "class":
        return np.asarray(predicted(examples) != examples["label"])
    if task.target.name == "classes":
        return np.asarray(((examples["chances"] > 0.5) != examples["labels"]).any(1))
    return np.ones(len(examples), bool)


def shown(example: Example) -> str:
    text = " ".join(" / ".join(part for part in (example.text, example.pair) if part).split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
