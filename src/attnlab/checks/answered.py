"""Which questions a model answers, beside those that have an answer: has it learned anything?"""

from __future__ import annotations

import numpy as np

from attnlab.metrics.answers import SpanF1, answered
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding, Outcome


def never_answering(examples: Examples) -> Finding | None:
    """Span F1 against that of never answering, paired by question, questions of one passage taken together;
    None where no question has an answer."""
    if not examples["answerable"].any():
        return None
    silent = Examples(dict(examples.columns) | {"margin": np.full(len(examples), -np.inf)})
    found = SpanF1().difference(examples, silent)
    low, high = (found.low, found.high) if np.isfinite(found.low) else (found.value, found.value)
    values = {"f1": SpanF1().value(examples), "silent": SpanF1().value(silent), "n": found.n}
    values |= {"low": low, "high": high}
    better = low > 0 and found.n > 1
    return Finding(
        check="majority",
        when="evaluation",
        outcome=Outcome.PASS if better else Outcome.FAIL,
        kind="better_than_silence" if better else "never_answering",
        values=values,
        number=found.value,
    )


def one_way(examples: Examples) -> Finding | None:
    """Whether some questions are answered and some are not; None where all, or none, have an answer."""
    given, there = answered(examples), examples["answerable"]
    if there.all() or not there.any():
        return None
    values = {"n": len(given), "answerable": float(there.mean())}
    if not given.any():
        kind, score = "never_answers", examples["silent"]
    elif given.all():
        kind, score = "always_answers", examples["span_f1"]
    else:
        kind, score = "answers_some", examples["span_f1"]
    return Finding(
        check="collapse",
        when="evaluation",
        outcome=Outcome.PASS if kind == "answers_some" else Outcome.FAIL,
        kind=kind,
        values=values | {"score": float(score.mean())},
        number=float(given.mean()),
    )
