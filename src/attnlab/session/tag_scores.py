"""What a tagger does on a split: its classes one by one, and the texts with most wrong tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlab.checks.predictions import judge_examples
from attnlab.data.example import Example
from attnlab.metrics.metric import Examples
from attnlab.metrics.tags import by_label, labels_of_tags
from attnlab.runs.findings import collapse_sentence
from attnlab.session.label_scores import WRONG, shown
from attnlab.tasks.task import Task


def of_tags(task: Task, texts: Sequence[Example], examples: Examples) -> dict[str, Any]:
    """All that is told of tags beside the metrics."""
    names, counts = task.labels.names, examples["tag_counts"].sum(0).reshape(3, -1)
    most = int(counts[1].argmax())
    found = judge_examples(task, examples)
    return {
        "majority": {"label": names[most], "share": float(counts[1][most] / max(1, counts[1].sum()))},
        "classes": list(by_label(examples, labels_of_tags(names))),
        "mistakes": _mistakes(texts, examples),
        "checks": [one.as_json() for one in found],
        "collapsed": collapse_sentence(found),
    }


def _mistakes(texts: Sequence[Example], examples: Examples) -> list[dict[str, Any]]:
    """The texts with most wrong tags."""
    right, true, _ = examples["tag_counts"].reshape(len(examples), 3, -1).sum(2).T
    wrong = true - right
    order = [int(n) for n in np.argsort(-wrong, kind="stable")[:WRONG] if wrong[n] > 0]
    return [
        {
            "place": texts[number].place,
            "text": shown(texts[number]),
            "label": f"{int(true[number])} words",
            "prediction": f"{int(wrong[number])} wrong",
            "confidence": None,
        }
        for number in order
    ]
