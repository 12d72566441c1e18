"""Learning rates tried one after another: the best by dev is kept as the run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from attnlab.checks.scored_rows import RATES
from attnlab.config.files import identity
from attnlab.config.schema import Config
from attnlab.config.values import Choice, ConfigError
from attnlab.evaluation.documents import document_losses
from attnlab.evaluation.statistics import loss_interval
from attnlab.metrics import METRICS
from attnlab.runs.atomic import replace_json
from attnlab.runs.faults import RunError, read_object, reading
from attnlab.runs.findings import collapse_sentence
from attnlab.runs.record import RECORD
from attnlab.session.trained import Trained
from attnlab.session.training import Run
from attnlab.tasks import TASKS
from attnlab.training.failure import DivergedError

USUAL = "usual"
FACTORS = (0.1, 0.3, 1.0, 3.0)
"""Of a config's own rate, the rates that are tried where none are named."""

TrainOne = Callable[[Config, Path, bool], Run]
"""Trains a config in a folder, or resumes it."""


# ---------------------------------------------------------------- the rates
def rates_of(wanted: str | Sequence[float], config: Config) -> tuple[float, ...]:
    """Rates as a person gives them: "usual", "1e-5,5e-5", or numbers; sorted, each once."""
    if wanted == USUAL:
        own = float(config.training.optimizer.options["learning_rate"])
        return tuple(float(f"{own * factor:.2g}") for factor in FACTORS)
    parts = wanted.split(",") if isinstance(wanted, str) else wanted
    try:
        numbers = sorted({float(part) for part in parts})
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) < 2 or not all(0 < rate < math.inf for rate in numbers):
        raise ConfigError(
            f"rates is {wanted!r}; give two or more numbers above 0, such as 1e-5,5e-5,2e-4, or {USUAL}: "
            f"{', '.join(f'{factor:g}' for factor in FACTORS)} times the method's own rate."
        )
    return tuple(numbers)


def with_rate(config: Config, rate: float) -> Config:
    optimizer = config.training.optimizer
    chosen = Choice(optimizer.kind, {**optimizer.options, "learning_rate": rate})
    return replace(config, training=replace(config.training, optimizer=chosen))


def best_rate(values: Mapping[float, float | None], metric: str) -> float:
    """The rate with the best value; of equal ones the lowest. A rate that failed has none."""
    sign = 1 if METRICS[metric].better == "higher" else -1

    def worth(rate: float) -> float:
        value = values[rate]
        return -math.inf if value is None else sign * value

    return max(sorted(values), key=worth)


def at_the_edge(best: float, rates: Sequence[float]) -> bool:
    """Whether a better rate may lie beyond those that were tried."""
    return len(rates) > 1 and best in (min(rates), max(rates))


# ---------------------------------------------------------------- what became of them
@dataclass(frozen=True)
class TriedRate:
    """One rate: its run's best value on `n` texts of dev with the 95% interval, the epochs that it took,
    `collapsed` where its predictions came to the majority share, `failed` where it did not come to an end."""

    rate: float
    value: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    epochs: float = 0.0
    collapsed: str = ""
    failed: str = ""

    def line(self, *, best: bool) -> str:
        """As a row of the table that a person reads."""
        if self.value is None:
            return f"{self.rate:>9g}  failed: {self.failed}"
        between = "{:.4f} to {:.4f}".format(*self.interval) if self.interval else ""
        marks = ", ".join(["best"] * best + ["collapsed"] * bool(self.collapsed))
        return f"{self.rate:>9g}  {self.value:.4f} {between}  {self.epochs:.3g} epochs  {marks}".rstrip()


@dataclass(frozen=True)
class RatesTried:
    """All that were tried so far; `signal` is what stopped it before the last one, 0 for nothing."""

    metric: str
    tried: tuple[TriedRate, ...]
    folder: Path
    """Where the runs of the others are."""
    signal: int = 0

    @property
    def best(self) -> TriedRate:
        rate = best_rate({trial.rate: trial.value for trial in self.tried}, self.metric)
        return next(trial for trial in self.tried if trial.rate == rate)

    def __str__(self) -> str:
        best = self.best
        head = f"Learning rates, each by its best dev {self.metric.replace('_', ' ')} (95% interval over "
        lines = [f"{head}n = {best.n:,} texts):", *(trial.line(best=trial is best) for trial in self.tried)]
        lines.append(
            "The rate was chosen by these rows of dev: its score there is a little too good; judge on others."
        )
        lines.append(f"The runs of the other rates are in {self.folder}.")
        if at_the_edge(best.rate, [trial.rate for trial in self.tried]):
            lines.append(f"The best rate, {best.rate:g}, is at the edge: a better one may lie beyond.")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {"metric": self.metric, "best": self.best.rate, "tried": [asdict(rate) for rate in self.tried]}


# ---------------------------------------------------------------- trying them
def try_rates(
    config: Config, rates: Sequence[float], out: Path, train: TrainOne, *, resume: bool = False
) -> RatesTried:
    """Train the config at each rate, beside `out`; the run of the best becomes `out`.

    What was tried is kept in `OUT-rates`, so that `resume` continues where it stood.
    """
    place = out.with_name(f"{out.name}-rates")
    tried = _held(config, rates, place, out, resume=resume)
    metric = config.training.deciding(TASKS[config.task.kind].metrics)
    for rate in rates:
        if rate in tried:
            continue
        result, signal = _tried(with_rate(config, rate), place / f"rate-{rate:g}", rate, metric, train)
        if signal:
            return RatesTried(metric, tuple(tried.values()), place, signal)
        tried[rate] = result
        _keep(config, tried, place / RATES)
    outcome = RatesTried(metric, tuple(tried[rate] for rate in rates), place)
    if outcome.best.value is None:
        raise RunError(f"Training failed at every learning rate: {outcome.best.failed} Try lower ones.")
    if not (out / RECORD).is_file():
        os.replace(place / f"rate-{outcome.best.rate:g}", out)  # whole, or not at all
    replace_json(out / RATES, outcome.as_json())
    return outcome


def _tried(config: Config, folder: Path, rate: float, metric: str, train: TrainOne) -> tuple[TriedRate, int]:
    try:
        run = train(config, folder, (folder / RECORD).is_file())
    except DivergedError as error:
        return TriedRate(rate, failed=str(error)), 0
    if run.reason == "interrupted":
        return TriedRate(rate), run.signal
    return scored(run, rate, metric), 0


def scored(run: Run, rate: float, metric: str) -> TriedRate:
    """What the best checkpoint of a run comes to on dev."""
    trained = Trained.at(run.folder)
    losses = document_losses(trained.evaluator("dev"))
    estimate = loss_interval(losses, metric)
    collapsed = collapse_sentence(trained.task.target.findings(losses.examples, trained.task.labels))
    return TriedRate(rate, estimate.value, estimate.interval, len(losses), run.state.epochs, collapsed)


class RatesRecord(TypedDict):
    """What is kept of the rates that were tried."""

    config: str
    tried: list[TriedRate]


def _held(
    config: Config, rates: Sequence[float], place: Path, out: Path, *, resume: bool
) -> dict[float, TriedRate]:
    """What an earlier call has tried of the same config; refused where it would be mixed with another."""
    if config.data.dev_share == 0 and not config.data.corpus.options.get("dev"):
        raise ConfigError(
            "Learning rates are chosen on the dev split, and there is none; set data.dev_share or give dev."
        )
    if not resume:
        for taken in (place, out / RECORD):
            if taken.exists():
                raise ConfigError(f"{taken} already exists; resume it with --resume, or give another --out.")
    if not (place / RATES).is_file():
        return {}
    table = read_object(place / RATES, RatesRecord)
    if table["config"] != identity(config):
        raise ConfigError(f"{place} holds rates that were tried for another config; give another --out.")
    with reading(place / RATES):
        tried = [TriedRate(**rate | {"interval": _pair(rate["interval"])}) for rate in table["tried"]]
    return {rate.rate: rate for rate in tried if rate.rate in rates}


def _pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (ends[0], ends[1])


def _keep(config: Config, tried: Mapping[float, TriedRate], file: Path) -> None:
    replace_json(file, {"config": identity(config), "tried": [asdict(rate) for rate in tried.values()]})
