"""The step that is kept as the best, by the history of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from attnlab.checks.check import Case, Check
from attnlab.metrics import METRICS
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

HISTORY = "metrics.jsonl"
EQUAL = 1e-9


class BestStep(Check):
    """Best step: is the step that is called the best the one that the history of dev scores chooses?

    Formula: metrics.jsonl is read line by line, for the metric that training.best_by names. Of a loss, the
    first that no other surpasses must be the one that the run keeps as its best, with that value. Of a score
    over so many texts it is the last that is no more than one standard error worse than the best before it:
    few texts cannot tell the two apart. Evaluations that wrote no texts decide nothing by a score of texts.

    When it helps: a checkpoint that was chosen by another metric, by its worst value, on train, or by a state
    that a resumed run forgot, is opened as "the best on dev".

    Cannot see: values that were wrong when they were written (see `recomputed_metrics`), and that the best of
    many evaluations on dev is a little too good: judge on test.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        metric = case.config.training.deciding(case.task.metrics)
        values = {} if case.folder is None else dev_values(case.folder, metric)
        if case.best is None or not values:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_history")
        errors = {} if metric == "loss" or case.folder is None else dev_errors(case.folder)
        step = kept_step(values, errors, higher=METRICS[metric].better == "higher")
        own_step, own_value = case.best
        said: dict[str, Value] = {"metric": metric, "step": step, "value": values[step]}
        said |= {"evaluations": len(values), "own_step": own_step, "own_value": own_value}
        if own_step == step and abs(own_value - values[step]) <= EQUAL * max(1.0, abs(values[step])):
            return self.finding(case.when, Outcome.PASS, "best", float(step), **said)
        return self.finding(case.when, Outcome.FAIL, "not_best", float(step), **said)


def kept_step(values: Mapping[int, float], errors: Mapping[int, float], *, higher: bool) -> int:
    """The step that is kept, by the rule read over all evaluations at once: the last within one standard
    error of the best up to it."""
    sign = 1 if higher else -1
    steps = list(values)
    best = [max(steps[: n + 1], key=lambda step: sign * values[step]) for n in range(len(steps))]
    if not errors:
        return best[-1]
    tied = [
        step
        for step, top in zip(steps, best, strict=True)
        if step == top or sign * (values[top] - values[step]) <= errors.get(top, 0.0)
    ]
    return tied[-1]


def dev_values(folder: Path, metric: str) -> dict[int, float]:
    """The dev values of a metric by step, as they stand in the history; those that are no number aside."""
    return {step: scores[metric] for step, scores in evaluations(folder).items() if metric in scores}


def dev_errors(folder: Path) -> dict[int, float]:
    """The standard errors of the scores that decided, by step; none in runs of before."""
    return {
        int(event["step"]): float(event["error"]) for event in evaluation_events(folder) if "error" in event
    }


def evaluations(folder: Path) -> dict[int, dict[str, float]]:
    """The dev scores of each evaluation by step, as they stand in the history."""
    by_step: dict[int, dict[str, float]] = {}
    for event in evaluation_events(folder):
        scores = {"loss": event["loss"], **event["scores"]}
        numbers = {name: x for name, x in scores.items() if isinstance(x, (int, float)) and x == x}
        by_step[int(event["step"])] = {name: float(x) for name, x in numbers.items()}
    return by_step


def evaluation_events(folder: Path) -> Iterator[dict[str, Any]]:
    """The evaluations of a run's history, line by line."""
    file = folder / HISTORY
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            continue  # the last line of a run that was killed
        if event.get("event") == "evaluated":
            yield event
