"""The runs of a study that its arms begin from: trained first, once, in the study's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attnlab.config.files import to_json
from attnlab.config.schema import Budget, Config
from attnlab.runs.faults import RunError
from attnlab.runs.result import RunResult, read_result
from attnlab.runs.summary import STARTS
from attnlab.session.start import start_at
from attnlab.studies.earlier_runs import ready
from attnlab.studies.engines.engine import Job, JobRequest, Purpose, Queue
from attnlab.studies.outcome import StartRecord
from attnlab.studies.resolved import Resolved, arm_config
from attnlab.studies.starts import plan_starts


def train_starts(
    resolved: Resolved, folder: Path, queue: Queue, *, purpose: Purpose = Purpose.MEASURE
) -> Resolved:
    """Train what arms begin from, or resume it; gives the study with every arm's config complete."""
    work = [
        Job(name, config.seed, request(resolved, config, folder / STARTS / name, purpose))
        for name, config in resolved.starts.items()
    ]
    queue.run(ready(work))
    if queue.interrupt.asked:
        return resolved
    for job in work:
        if job.status != "finished":
            reason = str(job.result.reason) if job.result else job.status
            raise RunError(f"The start {job.arm} of {resolved.study.name} could not be trained: {reason}")
    return placed(resolved, folder)


def placed(resolved: Resolved, folder: Path) -> Resolved:
    """The study with the starts that stand in its folder in the configs of its arms."""
    if not resolved.starts:
        return resolved
    study = resolved.study
    beginnings = plan_starts(study, {})
    beginnings |= {name: start_at((folder / STARTS / name).resolve()) for name in resolved.starts}
    own = {arm for arm in study.arms if study.starts_of(arm) & resolved.starts.keys()}
    configs = {
        arm: arm_config(study, study.config(arm), beginnings) if arm in own else config
        for arm, config in resolved.configs.items()
    }
    return replace(resolved, configs=configs)


def hardly_trained(resolved: Resolved, folder: Path, queue: Queue) -> Resolved:
    """The study with starts of one step each in a folder: to time the arms by."""
    short = {
        name: replace(
            config,
            training=replace(config.training, budget=Budget(steps=1), evaluate_every="never", listeners=()),
        )
        for name, config in resolved.starts.items()
    }
    begun = train_starts(replace(resolved, starts=short), folder, queue, purpose=Purpose.TRAIN)
    return replace(begun, starts=resolved.starts)


def request(resolved: Resolved, config: Config, folder: Path, purpose: Purpose) -> JobRequest:
    imports = tuple(resolved.imports)
    return JobRequest(folder=str(folder), config=to_json(config), purpose=purpose, imports=imports)


def start_records(resolved: Resolved, folder: Path) -> list[StartRecord]:
    """What arms begin from, for the study's readers: paths, and runs that were trained first."""
    study = resolved.study
    used = {name for arm in study.arms for name in study.starts_of(arm)}
    paths = {name: path for name, path in study.starts.items() if name in used and isinstance(path, str)}
    given = [StartRecord(name=name, folder=path) for name, path in paths.items()]
    return given + [trained_start(name, config, folder) for name, config in resolved.starts.items()]


def trained_start(name: str, config: Config, folder: Path) -> StartRecord:
    """A run that was trained first."""
    run = read_result(folder / STARTS / name) or RunResult()
    return StartRecord(
        name=name,
        folder=f"{STARTS}/{name}",
        config=to_json(config),
        status=run.status,
        seed=run.seed,
        steps=run.steps,
        tokens=run.tokens,
        seconds=run.seconds,
        parameters=run.parameters,
        unsound=run.unsound,
        metrics=run.metrics,
    )
