"""A classifier's predictions beside what was right: has it learnt anything?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import Any

from attnlab.checks.check import Finding, Predictions

CONFIDENCE = 0.95
FEW_LABELS = 0.02
"""The share of a class below which a model may leave it out."""

ONE_LABEL: dict[str, Any] = {"outcome": "not applicable", "found": "all examples have the same label"}


def judge(labels: Sequence[Hashable], predicted: Sequence[Hashable]) -> list[Finding]:
    """What the checks `majority` and `collapse` say of predictions, wherever they come from."""
    given = Predictions(labels, predicted)
    found = {"majority": majority(given), "collapse": collapse(given)}
    return [one or Finding(check=name, when="evaluation", **ONE_LABEL) for name, one in found.items()]


def interval(right: int, n: int) -> tuple[float, float]:
    """Wilson's interval of a share: the shares that lie within z of their own standard errors of it."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, room = right / n, z * z / n
    middle = (share + room / 2) / (1 + room)
    half = z / (1 + room) * math.sqrt(share * (1 - share) / n + room / (4 * n))
    return middle - half, middle + half


def majority(given: Predictions) -> Finding | None:
    """Accuracy against that of always saying the most frequent label; None where there is only one label."""
    same_length(given)
    counts, n = Counter(given.labels), len(given.labels)
    if len(counts) < 2:
        return None
    (label, most), right = counts.most_common(1)[0], correct(given)
    share, (low, high) = most / n, interval(right, n)
    always = f"always saying “{label}” gives {share:.1%}"
    told = f"accuracy {right / n:.1%} [{low:.1%}, {high:.1%}] of {n:,}; {always}"
    common = {"check": "majority", "when": "evaluation", "number": right / n - share}
    if low > share:
        return Finding(outcome="pass", found=told, **common)  # type: ignore[arg-type]
    if right == n:
        return Finding(
            outcome="warn",
            found=told,
            meaning="All are right, and still so few that luck cannot be ruled out.",
            fix="Judge on more examples.",
            **common,  # type: ignore[arg-type]
        )
    meaning = "The model has learned nothing that the most frequent label does not say."
    if right / n > share:
        meaning = "It cannot be told from a model that has learned nothing: the interval includes that share."
    return Finding(
        outcome="fail",
        found=told,
        meaning=meaning,
        fix="Look whether the input arrives and the loss falls; judge on more examples, or by a measure "
        "that weighs classes equally.",
        **common,  # type: ignore[arg-type]
    )


def collapse(given: Predictions) -> Finding | None:
    """How many of the classes are ever predicted; None where there is only one label."""
    same_length(given)
    labels, said = Counter(given.labels), Counter(given.predicted)
    if len(labels) < 2:
        return None
    n = len(given.labels)
    shares = ", ".join(f"“{name}” {count / n:.0%}" for name, count in said.most_common(3))
    classes = len(set(given.classes) | labels.keys() | said.keys())
    told = f"{len(said)} of {classes} classes are predicted: {shares}"
    due = [name for name, count in labels.items() if count / n >= FEW_LABELS]
    common = {"check": "collapse", "when": "evaluation", "number": float(len(said))}
    if len(said) == 1:
        return Finding(
            outcome="fail",
            found=told,
            meaning="The model says the same whatever it reads.",
            fix="Look at the learning rate, and whether the input reaches the head.",
            **common,  # type: ignore[arg-type]
        )
    if len(said) == 2 < len(due):
        return Finding(
            outcome="warn",
            found=told,
            meaning=f"The model knows two classes; {len(due)} are frequent enough to be learnt.",
            fix="Look at the classes that are never predicted: are their labels read, are they weighed?",
            **common,  # type: ignore[arg-type]
        )
    return Finding(outcome="pass", found=told, **common)  # type: ignore[arg-type]


def correct(given: Predictions) -> int:
    return sum(a == b for a, b in zip(given.labels, given.predicted, strict=True))


def same_length(given: Predictions) -> None:
    if len(given.labels) != len(given.predicted):
        raise ValueError(
            f"There are {len(given.labels)} labels and {len(given.predicted)} predictions; give one for each."
        )
    if not given.labels:
        raise ValueError("There are no predictions to judge; give at least one.")
