"""Where the threshold comes from that decides whether a question is answered."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from attnlab.checks.check import Case, Check
from attnlab.metrics.metric import Examples, Floats
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.tasks.answer_spans import AnswerSpans

NEEDED = ("margin", "threshold", "fold", "span_f1", "silent")
EQUAL = 1e-9
CANDIDATES = 2000


class Threshold(Check):
    """Threshold: was the threshold of answers chosen without the questions that it is scored on?

    Formula: the threshold of each fifth of dev (by passage) must reach the best F1 that any threshold has on
    the other four, counted again with a plain sum for each candidate; and questions of a fold have one
    threshold. Given with it is the F1 of a threshold that is chosen on the scored questions themselves, and
    the difference: what tuning on the reported split would have pretended.

    When it helps: τ that is tuned on the reported split fits its noise; on a few hundred questions that is
    worth a point or more, and no other number shows it.

    Cannot see: a threshold that a person chose by these scores and then set (task.threshold), or a best
    checkpoint, which is chosen on dev as well: judge on test.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.5
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        examples = case.examples
        if (
            not isinstance(case.task, AnswerSpans)
            or examples is None
            or any(n not in examples for n in NEEDED)
        ):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_threshold")
        return self.judge(case.when, examples, fixed=case.task.threshold != "dev")

    def judge(self, when: When, examples: Examples, *, fixed: bool = False) -> Finding:
        """Of the questions of an evaluation; `fixed` says that a person set the threshold."""
        own = float(scored(examples, examples["threshold"]).mean())
        tuned = max(float(scored(examples, tau).mean()) for tau in candidates(examples["margin"]))
        gain = tuned - own
        values = {"f1": own, "tuned": tuned}
        if fixed:
            values["threshold"] = float(examples["threshold"][0])
            return self.finding(when, Outcome.PASS, "fixed", gain, **values)
        folds = np.unique(examples["fold"])
        if len(folds) < 2:
            return self.finding(when, Outcome.NOT_APPLICABLE, "one_question")
        wrong = [int(fold) for fold in folds if not chosen_on_other_folds(examples, fold)]
        outcome, kind = (Outcome.FAIL, "fitted") if wrong else (Outcome.PASS, "apart")
        return self.finding(when, outcome, kind, gain, wrong=len(wrong), folds=len(folds), **values)


def chosen_on_other_folds(examples: Examples, fold: int) -> bool:
    """Whether the threshold of a fold is one, and the best for all other folds."""
    inside = examples["fold"] == fold
    thresholds = np.unique(examples["threshold"][inside])
    others = Examples({name: examples[name][~inside] for name in NEEDED})
    best = max(float(scored(others, tau).sum()) for tau in candidates(others["margin"]))
    return len(thresholds) == 1 and float(scored(others, thresholds[0]).sum()) >= best - EQUAL * max(
        1, len(others)
    )


def scored(examples: Examples, threshold: Floats | float) -> Floats:
    """(n) the F1 of each question under a threshold."""
    scores: Floats = np.where(examples["margin"] > threshold, examples["span_f1"], examples["silent"])
    return scores


def candidates(margin: Floats) -> Floats:
    """Thresholds that part the questions in every way there is, or of many questions in 2,000 ways."""
    finite = np.unique(margin[np.isfinite(margin)])
    some = finite[:: max(1, len(finite) // CANDIDATES)]
    return np.append(some, finite[0] - 1) if len(finite) else np.zeros(1)
