"""Learning rates tried with equal effort for every arm, on dev, with a seed apart from the study's."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.config.files import to_json
from attnlab.config.schema import Config
from attnlab.config.values import Choice
from attnlab.studies.pool import Job, Pool
from attnlab.studies.resolved import Resolved

SEED = 1_000_003
"""No study's own: what a rate was chosen by is not what it is judged by."""


def tuned(resolved: Resolved, folder: Path, pool: Pool) -> tuple[Resolved, list[dict[str, Any]]]:
    """Each arm at its best rate of the grid, and the whole grid for the report."""
    rates = resolved.study.learning_rates
    if not rates:
        return resolved, []
    tried = [(arm, rate) for rate in rates for arm in resolved.configs]
    work = [
        Job(arm, SEED, folder / "tuning" / arm / f"rate-{rate:g}", request(resolved, arm, rate))
        for arm, rate in tried
    ]
    pool.run(work)
    if pool.interrupt.asked:
        return resolved, []
    losses = {pair: loss_of(job) for pair, job in zip(tried, work, strict=True)}
    best = {arm: min(rates, key=lambda rate: losses[arm, rate]) for arm in resolved.configs}
    table = [
        {"arm": arm, "learning_rate": rate, "loss": finite(losses[arm, rate]), "chosen": rate == best[arm]}
        for arm in resolved.configs
        for rate in rates
    ]
    configs = {arm: with_rate(config, best[arm]) for arm, config in resolved.configs.items()}
    notes = (*resolved.notes, *edges(best, rates))
    return replace(resolved, configs=configs, notes=notes), table


def request(resolved: Resolved, arm: str, rate: float) -> dict[str, Any]:
    tried = replace(with_rate(resolved.configs[arm], rate), seed=SEED)
    allowed = list(resolved.study.allow.get(arm, ()))
    return {"config": to_json(tried), "allow": allowed, "probes": [], "sentence": "", "extras": ""}


def with_rate(config: Config, rate: float) -> Config:
    optimizer = config.training.optimizer
    chosen = Choice(optimizer.kind, {**optimizer.options, "learning_rate": rate})
    return replace(config, training=replace(config.training, optimizer=chosen))


def loss_of(job: Job) -> float:
    """The dev loss; a run that failed, as at too high a rate, is worse than all others."""
    return job.result.metrics.get("loss", math.inf) if job.result is not None else math.inf


def finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None


def edges(best: dict[str, float], rates: tuple[float, ...]) -> list[str]:
    """Arms whose best rate may lie beyond the grid."""
    outer = {min(rates), max(rates)} if len(rates) > 1 else set()
    return [
        f"The best learning rate of {arm}, {rate:g}, is at the edge of the grid: a better one may lie beyond."
        for arm, rate in best.items()
        if rate in outer
    ]
