"""What is said of targets: of the labels of a training split, and of what is measured of each kind."""

from __future__ import annotations

from attnlab.config.values import without_middle
from attnlab.data.labels import Labels
from attnlab.targets.classes import SHOWN

LISTED = 8
"""Classes that are named one by one."""
LABELLED = {
    "targets": "labels that were predicted",
    "texts": "texts, or pairs of them; intervals are over others like them",
}
DEFINITIONS = {
    "pair": LABELLED | {"loss": "nats per pair, among the second texts of its batch"},
    "tags": LABELLED | {"loss": "nats per word"},
    "class": LABELLED | {"loss": "nats per label, over all labels"},
    "classes": LABELLED | {"loss": "nats per text, of all its labels together"},
    "number": LABELLED
    | {"loss": "squared error per number, in standard deviations of those trained on; 1 for their mean"},
    "answer": {
        "targets": "windows that were read; a long passage has several",
        "texts": "questions; intervals are over others like them, with the thresholds as they are",
        "loss": "nats per window, of the answer's first and last token together",
    },
}
"""What the measures of an evaluation mean, by target."""


def labels_sentence(labels: Labels) -> str:
    """What a model will learn, without its full stop."""
    if labels.kind == "answer":
        counts = zip(labels.counts, labels.names, strict=True)
        return f"Questions of train: {', '.join(f'{count:,} {name}' for count, name in counts)}"
    if labels.kind == "pair":
        return f"Pairs of train: {labels.examples:,}; other pairs of a batch are the wrong answers"
    if labels.kind == "number":
        return f"Numbers of mean {labels.mean:.4g} and deviation {labels.deviation:.4g}"
    names = [without_middle(name, SHOWN) for name in labels.names]
    counted = [f"{name} {count:,}" for name, count in zip(names, labels.counts, strict=True)]
    more = f", and {len(counted) - LISTED} more" if len(counted) > LISTED else ""
    return f"{len(counted)} classes: {', '.join(counted[:LISTED])}{more}"
