"""The best step, by the history of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from attnlab.checks.check import Case, Check
from attnlab.metrics import METRICS
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

HISTORY = "metrics.jsonl"
EQUAL = 1e-9


class BestStep(Check):
    """Best step: is the step that is called the best the one with the best dev score in the history?

    Formula: metrics.jsonl is read line by line; of all evaluations the first whose value of the task's first
    metric no other surpasses must be the one that the run keeps as its best, with that value.

    When it helps: a checkpoint that was chosen by another metric, by its worst value, on train, or by a state
    that a resumed run forgot, is opened as "the best on dev".

    Cannot see: values that were wrong when they were written (see `recomputed_metrics`), and that the best of
    many evaluations on dev is a little too good: judge on test.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        metric = case.task.metrics[0]
        values = {} if case.folder is None else dev_values(case.folder, metric)
        if case.best is None or not values:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_history")
        highest = METRICS[metric].better == "higher"
        best = max(values.values()) if highest else min(values.values())
        step = next(step for step, value in values.items() if value == best)
        own_step, own_value = case.best
        said: dict[str, Value] = {"metric": metric, "step": step, "value": best, "evaluations": len(values)}
        said |= {"own_step": own_step, "own_value": own_value}
        if own_step == step and abs(own_value - best) <= EQUAL * max(1.0, abs(best)):
            return self.finding(case.when, Outcome.PASS, "best", float(step), **said)
        return self.finding(case.when, Outcome.FAIL, "not_best", float(step), **said)


def dev_values(folder: Path, metric: str) -> dict[int, float]:
    """The dev values of a metric by step, as they stand in the history; those that are no number aside."""
    return {step: scores[metric] for step, scores in evaluations(folder).items() if metric in scores}


def evaluations(folder: Path) -> dict[int, dict[str, float]]:
    """The dev scores of each evaluation by step, as they stand in the history, line by line."""
    by_step: dict[int, dict[str, float]] = {}
    file = folder / HISTORY
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            continue  # the last line of a run that was killed
        if event.get("event") == "evaluated":
            scores = {"loss": event["loss"], **event["scores"]}
            numbers = {name: x for name, x in scores.items() if isinstance(x, (int, float)) and x == x}
            by_step[int(event["step"])] = {name: float(x) for name, x in numbers.items()}
    return by_step
