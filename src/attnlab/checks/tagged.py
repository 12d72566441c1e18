"""What a tagger said of the words, beside what was right: has it learned anything?"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnlab.metrics.metric import Examples
from attnlab.metrics.tags import EntityF1, TagAccuracy
from attnlab.runs.findings import Finding

ALWAYS_ONE = "The model is not better than giving every word the most frequent tag."
CURE = "Train longer or at another learning rate; check that each word has its own tag."


def most_frequent_tag(examples: Examples) -> Finding | None:
    """Accuracy over words against that of always giving the most frequent tag; None where all are equal."""
    _, true, _ = examples["tag_counts"].reshape(len(examples), 3, -1).sum(0)
    if (true > 0).sum() < 2:
        return None
    found, most = TagAccuracy().interval(examples), float(true.max() / true.sum())
    told = (
        f"tag accuracy {found.value:.1%} [{found.low:.1%}, {found.high:.1%}] of {int(true.sum()):,} words in "
        f"{len(examples):,} texts; the most frequent tag gives {most:.1%}"
    )
    about: dict[str, Any] = {"check": "majority", "when": "evaluation", "number": found.value - most}
    if found.low > most or found.value == 1:
        return Finding(outcome="pass", found=told, **about)
    return Finding(outcome="fail", found=told, meaning=ALWAYS_ONE, fix=CURE, **about)


def no_entities(examples: Examples) -> Finding | None:
    """Whether entities are predicted at all; None where there are none to find."""
    _, true, said = (int(n) for n in EntityF1().parts(examples).sum(0))
    if not true:
        return None
    invalid = int(np.sum(examples["invalid"]))
    told = f"{said:,} entities are predicted where {true:,} are; {invalid:,} tags continue what was not begun"
    about: dict[str, Any] = {"check": "collapse", "when": "evaluation", "number": float(said)}
    if said:
        return Finding(outcome="pass", found=told, **about)
    return Finding(
        outcome="fail",
        found=told,
        meaning="The model finds nothing: every word is outside.",
        fix=CURE,
        **about,
    )
