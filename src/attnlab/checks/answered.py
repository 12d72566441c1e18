"""Which questions a model answers, beside those that have an answer: has it learned anything?"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnlab.metrics.answers import SpanF1, answered
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding

NOT_BETTER = "The model is not better than never answering, on these questions."
CURE = "Train on more questions, longer, or at another learning rate; see `attnlab evaluate RUN`."


def never_answering(examples: Examples) -> Finding | None:
    """Span F1 against that of never answering, paired by question, questions of one passage taken together;
    None where no question has an answer."""
    if not examples["answerable"].any():
        return None
    silent = Examples(dict(examples.columns) | {"margin": np.full(len(examples), -np.inf)})
    found = SpanF1().difference(examples, silent)
    low, high = (found.low, found.high) if np.isfinite(found.low) else (found.value, found.value)
    told = (
        f"span F1 {SpanF1().value(examples):.1%} of {found.n:,} questions; never answering gives "
        f"{SpanF1().value(silent):.1%} (difference {found.value:+.1%} [{low:+.1%}, {high:+.1%}])"
    )
    common: dict[str, Any] = {"check": "majority", "when": "evaluation", "number": found.value}
    if low > 0 and found.n > 1:
        return Finding(outcome="pass", found=told, **common)
    return Finding(outcome="fail", found=told, meaning=NOT_BETTER, fix=CURE, **common)


def one_way(examples: Examples) -> Finding | None:
    """Whether some questions are answered and some are not; None where all, or none, have an answer."""
    given, there = answered(examples), examples["answerable"]
    if there.all() or not there.any():
        return None
    told = f"{given.mean():.0%} of {len(given):,} questions are answered; {there.mean():.0%} have an answer"
    common: dict[str, Any] = {"check": "collapse", "when": "evaluation", "number": float(given.mean())}
    if not given.any():
        score = f"{examples['silent'].mean():.2%}"
        meaning = f"The model never answers: its exact match and F1, {score}, are those of the baseline."
    elif given.all():
        score = f"{examples['span_f1'].mean():.2%}"
        meaning = f"The model answers every question: its F1, {score}, is that of the best spans without τ."
    else:
        return Finding(outcome="pass", found=told, **common)
    return Finding(outcome="fail", found=told, meaning=meaning, fix=CURE, **common)
