"""Before a study: how long it will take on the machines it has, and the smallest difference it could see."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from attnlab.config.files import config_of
from attnlab.config.values import Choice, ConfigError
from attnlab.evaluation.spread import Spread
from attnlab.evaluation.statistics import smallest_difference, spread_of
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.faults import RunError, reading
from attnlab.runs.folder import RunFolder
from attnlab.runs.result import RunResult, RunState
from attnlab.studies.capacity import Capacity, capacity_of, devices_of
from attnlab.studies.earlier_runs import changes_of, outcome_of
from attnlab.studies.engines import ENGINES
from attnlab.studies.engines.engine import Job, Purpose, Queue, View
from attnlab.studies.first_runs import hardly_trained, request
from attnlab.studies.judgement import seed_result
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.prepare import prepare_data
from attnlab.studies.resolved import Resolved
from attnlab.studies.runner import RESULTS, request_of, threads_for, unseen, work_of
from attnlab.studies.spec import OF_STUDY
from attnlab.studies.timing import Pace
from attnlab.training.continuing import resumable_step
from attnlab.training.interrupt import Interrupt

CHOSEN = {"training.optimizer.learning_rate", "start"}
"""Settings that a study itself chooses, before its runs."""


@dataclass(frozen=True)
class StudyPlan:
    """`seconds` of the whole study with so many `jobs`, which share the cores; `runs` gives each arm's own,
    nan where unknown, and `starts` those of the runs that come first.

    `smallest` is in units of the spread from seed to seed of a difference, or in the metric's own unit
    where an earlier study told that spread (`told_by`).
    """

    runs: dict[str, float]
    starts: dict[str, float]
    reasons: dict[str, str]
    tuning_runs: int
    seeds: int
    jobs: int
    threads: int
    seconds: float
    smallest: float
    told_by: str
    left: dict[str, int]
    """Runs of each arm that are still to be trained: all of them, but in a study that is resumed."""
    capacity: Capacity


def plan(
    resolved: Resolved,
    *,
    jobs: int = 0,
    view: View = unseen,
    on: str | Choice = "local",
    resumed: Path | None = None,
) -> StudyPlan:
    """Time a few real steps of each arm, as many arms at once as runs would be; nothing is kept.

    Of the study that is `resumed` in a folder, what is left is priced, by the spread that it has shown.
    """
    study, seeds = resolved.study, len(resolved.study.all_seeds)
    unfinished = runs_left(resolved, resumed)
    left = {arm: len(runs) for arm, runs in unfinished.items()}
    interrupt = Interrupt()
    with ENGINES.build(on) as engine, TemporaryDirectory(dir=engine.scratch) as place:
        devices, threads = devices_of(resolved), threads_for(resolved)
        engine.refuse(devices, threads)
        capacity = capacity_of(engine, devices, jobs=jobs, threads=threads)
        jobs = min(capacity.jobs, len(resolved.configs) * seeds)
        room = min(jobs, capacity.at_once)
        queue = Queue(engine, jobs=room, threads=threads, view=view, interrupt=interrupt)
        with interrupt.heard():
            resolved = hardly_trained(resolved, Path(place), queue)
        refuse_stopped(interrupt)
        prepare_data(resolved)
        with interrupt.heard():
            paces, reasons = paces_of(resolved, Path(place), queue)
        refuse_stopped(interrupt)
    reasons = {arm: f"failed: {why}" for arm, why in reasons.items()}
    reasons |= {arm: f"refused: {why}" for arm, why in resolved.refused.items()}
    first = {f"{OF_STUDY}{name}": config for name, config in resolved.starts.items()}
    total = {
        name: paces[name].total(config.training.evaluate_every) if name in paces else math.nan
        for name, config in {**resolved.configs, **first}.items()
    }
    runs = {arm: total.get(arm, math.nan) for arm in study.arms}
    to_come = {
        arm: known_sum(
            paces[arm].total(config.training.evaluate_every, taken=run.taken, checked=run.checked)
            for run in unfinished[arm]
        )
        for arm, config in resolved.configs.items()
        if arm in paces
    }
    starts = {name.removeprefix(OF_STUDY): total[name] for name in first}
    rates = len(study.learning_rates)
    tuned = {arm: 0 if resumed and left[arm] < seeds else rates for arm in study.arms}
    spread, told_by = earlier_spread(resolved, resumed=resumed)
    first_seconds = {} if resumed and any(count < seeds for count in left.values()) else starts
    smallest = smallest_difference(
        spread, seeds=seeds, comparisons=max(1, len(study.arms) - len(study.baselines))
    )
    return StudyPlan(
        runs=runs,
        starts=starts,
        reasons=reasons,
        tuning_runs=sum(tuned.values()),
        seeds=seeds,
        jobs=jobs,
        seconds=known_sum([*to_come.values(), *(runs[arm] * count for arm, count in tuned.items())]) / room
        + max(known_sum(first_seconds.values()) / room, max(first_seconds.values(), default=0.0)),
        left=left,
        threads=threads,
        smallest=smallest,
        told_by=told_by,
        capacity=replace(capacity, jobs=jobs),
    )


def known_sum(seconds: Iterable[float]) -> float:
    return math.fsum(s for s in seconds if math.isfinite(s))


def refuse_stopped(interrupt: Interrupt) -> None:
    """A plan that was stopped is none."""
    if interrupt.asked:
        raise KeyboardInterrupt


def paces_of(resolved: Resolved, folder: Path, queue: Queue) -> tuple[dict[str, Pace], dict[str, str]]:
    """The pace of each arm and of each run that comes first, and why one has none."""
    seed = resolved.study.all_seeds[0]
    work = [
        Job(arm, seed, replace(request_of(resolved, arm, seed, folder / "arms" / arm), purpose=Purpose.TIME))
        for arm in resolved.configs
    ]
    work += [
        Job(
            f"{OF_STUDY}{name}",
            config.seed,
            request(resolved, config, folder / "first" / name, Purpose.TIME),
        )
        for name, config in resolved.starts.items()
    ]
    queue.run(work)
    results = {job.arm: job.result for job in work if job.result is not None}
    paces = {arm: Pace(**result.extra["pace"]) for arm, result in results.items() if "pace" in result.extra}
    return paces, {
        arm: str(result.reason) for arm, result in results.items() if result.status == RunState.FAILED
    }


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that is to be trained, or to be continued after the steps that it has `taken`; `checked` where
    the first seed's run of the arm is checked before training for it."""

    taken: int
    checked: bool


def runs_left(resolved: Resolved, resumed: Path | None) -> dict[str, list[UnfinishedRun]]:
    """The runs of each arm that are still to be trained."""
    first, *others = resolved.study.all_seeds
    if resumed is None:
        new = [UnfinishedRun(0, checked=False), *(UnfinishedRun(0, checked=True) for _ in others)]
        return dict.fromkeys(resolved.study.arms, new)
    left: dict[str, list[UnfinishedRun]] = {arm: [] for arm in resolved.study.arms}
    for job in work_of(resolved, resumed):
        changed = {change.setting for change in changes_of(job)}
        if outcome_of(job) != "finished" or not changed <= CHOSEN:
            run = UnfinishedRun(steps_taken(job, changed), checked=job.seed != first)
            left[job.arm].append(run)
    return left


def steps_taken(job: Job, changed: Set[str]) -> int:
    """The step that a run is continued from; 0 where it begins anew."""
    if changed <= CHOSEN:
        return max(Checkpoints.of(job.folder).steps(), default=0)
    with suppress(ConfigError, RunError):
        return resumable_step(RunFolder(job.folder).config(), config_of(job.request.config), job.folder)
    return 0


def earlier_spread(
    resolved: Resolved, runs: Path = Path("runs"), resumed: Path | None = None
) -> tuple[Spread, str]:
    """The spread that the resumed study has shown, or the widest that an earlier run of this study found;
    without one, the unit of it."""
    best: tuple[int, float, Spread, str] | None = None
    own = [resumed / RESULTS] if resumed is not None and (resumed / RESULTS).is_file() else []
    for file in own or runs.glob(f"{resolved.study.name}-*/{RESULTS}"):
        for spread, seeds in sound_spreads(file, resolved.study.metric):
            candidate = (seeds, spread.seeds, spread, str(file.parent))
            best = max(best, candidate, key=lambda f: f[:2]) if best else candidate
    return (best[2], best[3]) if best else (Spread(1.0), "")


def sound_spreads(file: Path, metric: str) -> list[tuple[Spread, int]]:
    """Those of an earlier study; nothing where its files are damaged."""
    try:
        with reading(file):
            outcome = StudyOutcome.of_json(json.loads(file.read_text(encoding="utf-8")))
            return list(spreads(outcome, file.parent, metric))
    except (ConfigError, RunError):
        return []


def spreads(outcome: StudyOutcome, folder: Path, metric: str) -> Iterator[tuple[Spread, int]]:
    """The spread of each sound arm's difference from its baseline, with the number of its seeds."""
    by_arm: dict[str, dict[int, RunResult]] = {}
    invalid = {arm.name for arm in outcome.arms if not arm.sound}
    for run in outcome.runs:
        if run.arm not in invalid and run.status is RunState.FINISHED and metric in run.metrics:
            by_arm.setdefault(run.arm, {})[run.seed] = run
    study = outcome.study
    baselines = {name: by_arm.pop(name, {}) for name in study.baselines}
    for arm, runs in by_arm.items():
        baseline = baselines[study.against.get(arm, study.baseline)]
        seeds = sorted(runs.keys() & baseline.keys())
        if len(seeds) > 1:
            sides = [[seed_result(side[s], folder, metric) for s in seeds] for side in (runs, baseline)]
            yield spread_of(*sides, metric=metric), len(seeds)
