"""What a tagger said of the words, beside what was right: has it learned anything?"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnlab.metrics.metric import Examples
from attnlab.metrics.tags import EntityF1, TagAccuracy
from attnlab.runs.findings import Finding, Outcome


def most_frequent_tag(examples: Examples) -> Finding | None:
    """Accuracy over words against that of always giving the most frequent tag; None where all are equal."""
    _, true, _ = examples["tag_counts"].reshape(len(examples), 3, -1).sum(0)
    if (true > 0).sum() < 2:
        return None
    found, most = TagAccuracy().interval(examples), float(true.max() / true.sum())
    values = {"accuracy": found.value, "low": found.low, "high": found.high, "share": most}
    values |= {"words": int(true.sum()), "texts": len(examples)}
    about: dict[str, Any] = {"check": "majority", "when": "evaluation", "values": values}
    number = found.value - most
    if found.low > most or found.value == 1:
        return Finding(outcome=Outcome.PASS, kind="better_than_tag", number=number, **about)
    return Finding(outcome=Outcome.FAIL, kind="most_frequent_tag", number=number, **about)


def no_entities(examples: Examples) -> Finding | None:
    """Whether entities are predicted at all; None where there are none to find."""
    _, true, said = (int(n) for n in EntityF1().parts(examples).sum(0))
    if not true:
        return None
    invalid = int(np.sum(examples["invalid"]))
    outcome, kind = (Outcome.PASS, "entities") if said else (Outcome.FAIL, "no_entities")
    return Finding(
        check="collapse",
        when="evaluation",
        outcome=outcome,
        kind=kind,
        values={"predicted": said, "there": true, "invalid": invalid},
        number=float(said),
    )
