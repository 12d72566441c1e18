"""Learning rates tried with equal effort for every arm, on dev, with a seed apart from the study's."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from attnlab.config.files import to_json
from attnlab.metrics import METRICS
from attnlab.session.rates import at_the_edge, best_rate, with_rate
from attnlab.studies.earlier_runs import ready
from attnlab.studies.engines.engine import Job, JobRequest, Queue
from attnlab.studies.outcome import Note, NoteKind, TunedRate
from attnlab.studies.resolved import Resolved
from attnlab.studies.spec import Study

SEED = 1_000_003
"""No study's own: what a rate was chosen by is not what it is judged by."""


def tune_rates(resolved: Resolved, folder: Path, queue: Queue) -> tuple[Resolved, list[TunedRate]]:
    """Each arm at its best rate of the grid, and the whole grid for the report."""
    rates = resolved.study.learning_rates
    if not rates:
        return resolved, []
    tried = [(arm, rate) for rate in rates for arm in resolved.configs]
    work = [
        Job(arm, SEED, request(resolved, arm, rate, folder / "tuning" / arm / f"rate-{rate:g}"))
        for arm, rate in tried
    ]
    queue.run(ready(work))
    if queue.interrupt.asked:
        return resolved, []
    metric = metric_of(resolved.study)
    scores = {pair: value_of(job, metric) for pair, job in zip(tried, work, strict=True)}
    ended = {arm: {r: v for r in rates if (v := scores[arm, r]) is not None} for arm in resolved.configs}
    best = {arm: best_rate(values, metric) for arm, values in ended.items() if values}
    table = [
        TunedRate(arm, rate, metric, scores[arm, rate], rate == best.get(arm))
        for arm in resolved.configs
        for rate in rates
    ]
    configs = {
        arm: with_rate(config, best[arm]) if arm in best else config
        for arm, config in resolved.configs.items()
    }
    failed = {arm: str(job.result.reason) for (arm, _), job in zip(tried, work, strict=True) if job.result}
    notes = (*resolved.notes, *without_rate(failed, ended), *edges(best, rates))
    return replace(resolved, configs=configs, notes=notes), table


def without_rate(failed: Mapping[str, str], ended: Mapping[str, Collection[float]]) -> list[Note]:
    """That no rate of an arm can be called its best: every run that tried one failed."""
    return [
        Note(NoteKind.NO_RATE, {"arm": arm, "error": failed.get(arm, "")})
        for arm, rates in ended.items()
        if not rates
    ]


def request(resolved: Resolved, arm: str, rate: float, folder: Path) -> JobRequest:
    tried = replace(with_rate(resolved.configs[arm], rate), seed=SEED)
    allow, imports = tuple(resolved.study.allow.get(arm, ())), tuple(resolved.imports)
    return JobRequest(folder=str(folder), config=to_json(tried), allow=allow, imports=imports)


def metric_of(study: Study) -> str:
    """What rates are chosen by: the study's own metric, where it is one of examples; else the loss."""
    return study.metric if study.metric in METRICS else METRICS.default


def value_of(job: Job, metric: str) -> float | None:
    """A run's value on dev; nothing for one that failed, as at too high a rate."""
    value = None if job.result is None else job.result.metrics.get(metric)
    return float(value) if value is not None and math.isfinite(value) else None


def edges(best: dict[str, float], rates: tuple[float, ...]) -> list[Note]:
    """Arms whose best rate may lie beyond the grid."""
    return [
        Note(NoteKind.EDGE_RATE, {"arm": arm, "rate": rate})
        for arm, rate in best.items()
        if at_the_edge(rate, rates)
    ]
