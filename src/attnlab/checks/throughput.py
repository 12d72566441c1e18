"""Speed that can be believed."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from attnlab.checks.check import Case, Check
from attnlab.checks.real import device_of
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.metrics_file import last_events
from attnlab.training.machine import peak_flops

STEPS = 20
BEYOND = 3.0
"""Times the peak of a matrix product that no count of operations can reach, whatever else ran then."""


class Throughput(Check):
    """Throughput: are tokens per second counted from real tokens and real time?

    Formula: the tokens of each of the last 20 steps, as reported, compared with those of the rows that were
    planned; and operations per second at most 3 times the machine's matrix-product peak.

    When it helps: padding counted as text, a step counted twice, or a clock that is read wrongly
    makes a model look faster than it is.

    Cannot see: time spent outside steps (evaluation, saving), and a machine whose clock itself is wrong.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 1.0

    def run(self, case: Case) -> Finding:
        events = [] if case.folder is None else last_events(case.folder / "metrics.jsonl")
        steps = [event for event in events if event["event"] == "stepped"][-STEPS:]
        if not steps:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_steps")
        planned = tokens_of(case, steps[-1]["epoch"], len(steps))
        steps = steps[len(steps) - len(planned) :]
        there = sum(planned)
        reported, seconds = (sum(step[name] for step in steps) for name in ("tokens", "seconds"))
        if reported != there:
            counts = {"reported": reported, "steps": len(steps), "there": there}
            return self.finding(case.when, Outcome.FAIL, "miscounted", float(reported - there), **counts)
        peak = peak_flops(device_of(case.model), size=512)
        rate = sum(step["flops"] for step in steps) / max(seconds, 1e-12)
        outcome, kind = (Outcome.PASS, "plausible") if rate <= BEYOND * peak else (Outcome.FAIL, "too_fast")
        values = {"tokens_per_second": reported / max(seconds, 1e-12), "steps": len(steps)}
        return self.finding(case.when, outcome, kind, rate / peak, **values)


def tokens_of(case: Case, end: float, steps: int) -> list[int]:
    """The tokens of the last steps before `end`, in epochs, by the lengths of the rows planned there.

    Only the steps that lie in one epoch: fewer than asked for where it has just begun.
    """
    loader = case.dataset.trained(case.config.seed)
    lengths, each = np.sum(loader.rows.sizes, axis=0), case.config.training.accumulate
    epoch = max(math.ceil(end) - 1, 0)
    plan = loader.plan(epoch)
    done = round((end - epoch) * len(plan))
    sizes = [
        int(lengths[np.concatenate(plan.batch(number))].sum()) for number in range(done)[-steps * each :]
    ]
    return [sum(sizes[stop - each : stop]) for stop in range(len(sizes), each - 1, -each)][::-1]
