"""What is said of targets: of the labels of a training split, and of what is measured of each kind."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.config.values import without_middle

SHOWN = 100
"""Characters of a class's name in a sentence: a column may hold whole texts."""
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
"""What the measures of an evaluation mean, by target; of one of a person's own, LABELLED."""


def labels_sentence(
    *,
    kind: str,
    names: Sequence[str],
    counts: Sequence[int],
    examples: int,
    mean: float,
    deviation: float,
) -> str:
    """What a model will learn, by the labels of its training split; without its full stop."""
    if kind == "answer":
        questions = (f"{count:,} {name}" for count, name in zip(counts, names, strict=True))
        return f"Questions of train: {', '.join(questions)}"
    if kind == "pair":
        return f"Pairs of train: {examples:,}; other pairs of a batch are the wrong answers"
    if kind == "number":
        return f"Numbers of mean {mean:.4g} and deviation {deviation:.4g}"
    counted = [f"{without_middle(name, SHOWN)} {count:,}" for name, count in zip(names, counts, strict=True)]
    more = f", and {len(counted) - LISTED} more" if len(counted) > LISTED else ""
    return f"{len(counted)} classes: {', '.join(counted[:LISTED])}{more}"
