"""Resuming a run with another budget: where the learning rates of its steps stay what they were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attnlab.config.files import to_json
from attnlab.config.schema import Config, TrainingSettings
from attnlab.config.values import ConfigError
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.metrics_file import METRICS_FILE, read_events
from attnlab.runs.record import differences, refuse_changes
from attnlab.training.budget import State, amount, progress, shares
from attnlab.training.schedules import SCHEDULES

FREE = ("training.budget", "training.schedule")
"""The settings that may change when a run is resumed, as long as the steps taken would have been the same."""
SHARED = ("training.strategy", "training.process_timeout")
"""How processes share a run: the steps are the same by all of them."""


def resume_with(begun: Config, wanted: Config, run: Path) -> list[str]:
    """Warnings of a run that is resumed with another budget; a ConfigError gives the reason where it cannot.

    It resumes from its last checkpoint before the learning rate would have been another. Later ones, such
    as those of a decay that comes too early now, are set aside.
    """
    step = resumable_step(begun, wanted, run)
    checkpoints = Checkpoints.of(run)
    later = [
        checkpoints.set_aside(later_step, "left") for later_step in checkpoints.steps() if later_step > step
    ]
    changes = "; ".join(map(str, differences(to_json(begun), to_json(wanted))))
    aside = f" Later checkpoints are kept as {', '.join(place.name for place in later)}." if later else ""
    return [f"The run continues from step {step:,} with other settings ({changes}).{aside}"]


def resumable_step(begun: Config, wanted: Config, run: Path) -> int:
    """The last checkpoint up to which a run is the one that is wanted."""
    before, now = to_json(begun), to_json(wanted)
    refuse_changes(before, now, run, free=(*FREE, *SHARED))
    first, reason = first_other_step(begun.training, wanted.training, run)
    steps = Checkpoints.of(run).steps()
    usable = [step for step in steps if first is None or step < first]
    last = (usable or steps or [0])[-1]
    state = next((state for state, _ in states(run) if state.step == last), State())
    spent = [name for name, share in shares(wanted.training.budget, state).items() if share > 1]
    if spent:
        limit = amount(wanted.training.budget.limits[spent[0]], spent[0])
        raise ConfigError(
            f"{run} cannot be continued: it has taken {last:,} steps, which is more than {limit} already. "
            "Give a larger training.budget, or begin a new run with another --out."
        )
    if steps and not usable:
        raise ConfigError(f"{run} cannot be continued with these settings: {reason}")
    return last


def first_other_step(begun: TrainingSettings, wanted: TrainingSettings, run: Path) -> tuple[int | None, str]:
    """The first step whose learning rate would have been another, and why; none where all are the same."""
    other = _first_other_rate(begun, wanted, run)
    return (None, "") if other is None else (other[0], _reason(*other, begun, wanted, run))


def _first_other_rate(
    begun: TrainingSettings, wanted: TrainingSettings, run: Path
) -> tuple[int, float, float] | None:
    """The first step whose learning rate would have been another, with the factor it had and would have."""
    schedules = SCHEDULES.build(begun.schedule), SCHEDULES.build(wanted.schedule)
    for after, before in states(run):
        was, would_be = (
            schedule.factor((progress(settings.budget, before) + progress(settings.budget, after)) / 2)
            for schedule, settings in zip(schedules, (begun, wanted), strict=True)
        )
        if not math.isclose(was, would_be, rel_tol=1e-9):
            return after.step, was, would_be
    return None


def states(run: Path) -> Iterator[tuple[State, State]]:
    """The state after each step that a run took, and before it."""
    state = State()
    for event in read_events(run / METRICS_FILE):
        if event["event"] == "stepped":
            after = replace(
                state,
                step=event["step"],
                tokens=state.tokens + event["tokens"],
                epochs=event["epoch"],
                seconds=state.seconds + event["seconds"],
                flops=state.flops + event["flops"],
            )
            yield after, state
            state = after


def _reason(
    step: int, was: float, would_be: float, begun: TrainingSettings, wanted: TrainingSettings, run: Path
) -> str:
    digits = next(n for n in range(3, 18) if f"{was:.{n}g}" != f"{would_be:.{n}g}")
    rates = f"step {step:,} had {was:.{digits}g} of the learning rate, would now have {would_be:.{digits}g}"
    if begun.schedule != wanted.schedule:
        why = f"training.schedule was {begun.schedule}, now {wanted.schedule}: {rates}."
    elif warmup := _warmup_of_the_same_length(begun, wanted, run):
        return (
            f"its warm-up is a share of the budget, and would have another length: {rates}. Keep its length "
            f"with --set training.schedule.warmup={warmup}."
        )
    else:
        why = (
            f"training.schedule {begun.schedule.kind} had already lowered the learning rate for the shorter "
            f"budget: {rates}."
        )
    return (
        f"{why} Train it anew with another --out. Runs that are to be continued later need "
        "training.schedule=constant, or wsd and a checkpoint from before its decay."
    )


def _warmup_of_the_same_length(begun: TrainingSettings, wanted: TrainingSettings, run: Path) -> str:
    """The share with which the steps up to a checkpoint keep their rates; nothing where none does."""
    warmup = float(begun.schedule.options.get("warmup", 0.0))
    first = min(Checkpoints.of(run).steps(), default=0)
    for name in begun.budget.limits.keys() & wanted.budget.limits.keys():
        share = f"{warmup * begun.budget.limits[name] / wanted.budget.limits[name]:.10g}"
        options = {**wanted.schedule.options, "warmup": float(share)}
        fitting = replace(wanted, schedule=replace(wanted.schedule, options=options))
        other = _first_other_rate(begun, fitting, run) if 0 < float(share) < 1 else (0, 0.0, 0.0)
        if other is None or other[0] > first:
            return share
    return ""
