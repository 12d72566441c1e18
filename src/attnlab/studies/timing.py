"""A few real steps of an arm, for `attnlab run --plan`; no run is kept."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.config.schema import Config, TrainingSettings
from attnlab.runs.events import Checked, Evaluated, Event, Stepped
from attnlab.runs.findings import Finding, read_findings
from attnlab.session.session import Session, default_cache
from attnlab.session.shared_findings import holds_for_seeds
from attnlab.session.training import train

Counts = NDArray[Any]
STEPS, WARM = 6, 2
"""Steps that are made, and how many of them do not count yet."""


class EnoughError(Exception):
    """Enough has been seen."""


@dataclass(frozen=True)
class Pace:
    """What a run of an arm takes here, in seconds."""

    step: float
    steps: float
    evaluation: float
    start: float
    epochs: float = 0.0
    """Those of the whole budget."""
    shared: float = 0.0
    """What of its start the checks take that the runs of other seeds need not make again."""

    def total(self, evaluate_every: int | str, *, taken: int = 0, checked: bool = False) -> float:
        """Start, steps, the evaluations on the way, and about three more to measure what came of it. Of a run
        that has `taken` steps, what is left; `checked` says that another seed's run is checked for it."""
        every_epoch = 2 * self.epochs if evaluate_every == "epoch" else 0.0  # a part of train beside dev
        on_the_way = self.steps / evaluate_every if isinstance(evaluate_every, int) else every_epoch
        left = max(0.0, 1 - taken / self.steps)
        start = self.start - (self.shared if checked or taken else 0.0)
        return start + left * (self.steps * self.step + on_the_way * self.evaluation) + 4 * self.evaluation


class Stopwatch:
    """Listens to a run's first steps and one evaluation, and ends it there."""

    def __init__(self, *, evaluates: bool):
        self.began, self.first, self.evaluates = time.perf_counter(), 0.0, evaluates
        self.checks = 0.0
        self.steps: list[Stepped] = []
        self.evaluation = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Checked) and not event.step:
            self.checks = event.seconds
        elif isinstance(event, Stepped):
            self.first = self.first or time.perf_counter() - self.began
            self.steps.append(event)
            if len(self.steps) == STEPS and not self.evaluates:
                raise EnoughError
        elif isinstance(event, Evaluated):
            self.evaluation = event.seconds
            raise EnoughError

    @property
    def pace(self) -> Pace:
        counted = [event.seconds for event in self.steps[WARM:]] or [event.seconds for event in self.steps]
        last = self.steps[-1]
        steps, epochs = last.step / last.progress, last.epoch / last.progress
        return Pace(median(counted), steps, self.evaluation, self.first, epochs)


def measure_pace(config: Config, folder: Path, allow: Collection[str]) -> Pace:
    """The pace of a config; its budget stays as it is, since progress tells how many steps it holds."""
    training = replace(config.training, checkpoint_every=10**9, listeners=())
    evaluates = training.evaluate_every != "never" and config.data.dev_share > 0
    if evaluates:
        training = replace(training, evaluate_every=STEPS, evaluate_batches="all")
    watch = Stopwatch(evaluates=evaluates)
    session = Session(replace(config, training=training), cache=default_cache())
    with contextlib.suppress(EnoughError):
        train(session, folder, listeners=[watch], allow=allow)
    loader = session.dataset.trained(config.seed)
    pace = replace(watch.pace, shared=watch.checks * shared_share(read_findings(folder)))
    return over_the_budget(pace, training, *loader.sizes())


def shared_share(findings: Sequence[Finding]) -> float:
    """The share of the time of checks before training that is spent once for all seeds."""
    seconds = {True: 0.0, False: 0.0}
    for finding in findings:
        seconds[holds_for_seeds(finding.check)] += finding.seconds if finding.when == "before" else 0.0
    return seconds[True] / max(sum(seconds.values()), 1e-9)


def over_the_budget(pace: Pace, training: TrainingSettings, tokens: Counts, places: Counts) -> Pace:
    """A pace of the first steps as that of the whole budget, by the tokens and places of an epoch's batches:
    where the longest texts come first, the first steps take several times as long as the others."""
    limits, each = training.budget.limits, training.accumulate
    if {*limits} - {"steps", "tokens", "epochs"} or len(places) < each:
        return pace  # of seconds and operations it is not known how many steps they are
    begins = np.arange(0, len(places) - each + 1, each)
    taught, sizes = (np.add.reduceat(counts, begins).astype(np.float64) for counts in (tokens, places))
    epoch = len(begins)
    counts = [
        steps_for(taught, float(limit))
        if name == "tokens"
        else float(limit) * (epoch if name == "epochs" else 1)
        for name, limit in limits.items()
    ]
    count = min(counts)
    whole, rest = divmod(math.ceil(count), epoch)
    total = whole * sizes.sum() + sizes[:rest].sum()
    seen = np.resize(sizes, STEPS)[WARM:].mean()
    return replace(pace, steps=count, step=pace.step * float(total / max(math.ceil(count), 1) / seen))


def steps_for(taught: Counts, limit: float) -> float:
    """After how many steps so many tokens are trained on, epoch after epoch."""
    whole, rest = divmod(limit, float(taught.sum()))
    return whole * len(taught) + (int(np.searchsorted(taught.cumsum(), rest)) + 1 if rest else 0)
