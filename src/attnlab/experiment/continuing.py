"""A run that is to go on to another budget: where the learning rates of its steps stay what they were."""

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
"""The settings that may be others when a run goes on, as long as the steps taken would have been the same."""


def go_on(held: Config, wanted: Config, run: Path) -> list[str]:
    """What to say when a run goes on with another budget; a ConfigError gives the reason where it cannot.

    It goes on from its last checkpoint before the learning rate would have been another. Later ones, such
    as those of a decay that comes too early now, are set aside.
    """
    step = step_to_go_on_from(held, wanted, run)
    checkpoints = Checkpoints.of(run)
    later = [checkpoints.set_aside(one, "left") for one in checkpoints.steps() if one > step]
    changes = "; ".join(differences(to_json(held), to_json(wanted)))
    aside = f" Later checkpoints are kept as {', '.join(place.name for place in later)}." if later else ""
    return [f"The run continues from step {step:,} with other limits ({changes}).{aside}"]


def step_to_go_on_from(held: Config, wanted: Config, run: Path) -> int:
    """The last checkpoint up to which a run is the one that is wanted."""
    before, now = to_json(held), to_json(wanted)
    if any(not change.startswith(FREE) for change in differences(before, now)):
        refuse_changes(before, now, run)
    first, reason = first_other_step(held.training, wanted.training, run)
    steps = Checkpoints.of(run).steps()
    usable = [step for step in steps if first is None or step < first]
    if steps and not usable:
        raise ConfigError(f"{run} cannot be continued so: {reason}")
    last = usable[-1] if usable else 0
    state = next((state for state, _ in states(run) if state.step == last), State())
    spent = [name for name, share in shares(wanted.training.budget, state).items() if share > 1]
    if spent:
        limit = amount(wanted.training.budget.limits[spent[0]], spent[0])
        raise ConfigError(
            f"{run} cannot be continued so: it has taken {last:,} steps, which is more than {limit} already. "
            "Give a larger training.budget, or begin a new run with another --out."
        )
    return last


def first_other_step(held: TrainingSettings, wanted: TrainingSettings, run: Path) -> tuple[int | None, str]:
    """The first step whose learning rate would have been another, and why; none where all are the same."""
    schedules = SCHEDULES.build(held.schedule), SCHEDULES.build(wanted.schedule)
    for after, before in states(run):
        was, would_be = (
            schedule.factor((progress(settings.budget, before) + progress(settings.budget, after)) / 2)
            for schedule, settings in zip(schedules, (held, wanted), strict=True)
        )
        if not math.isclose(was, would_be, rel_tol=1e-9):
            return after.step, _reason(after.step, was, would_be, held, wanted)
    return None, ""


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


def _reason(step: int, was: float, would_be: float, held: TrainingSettings, wanted: TrainingSettings) -> str:
    kind = held.schedule.kind
    rates = f"step {step:,} was trained at {was:.3g} of the learning rate, and would now have {would_be:.3g}"
    warmup = float(held.schedule.options.get("warmup", 0.0))
    same = held.budget.limits.keys() & wanted.budget.limits.keys()
    if held.schedule != wanted.schedule:
        why = f"training.schedule was {held.schedule}, now {wanted.schedule}: {rates}."
    elif would_be < was and warmup and same:
        name = next(iter(same))
        fitting = warmup * held.budget.limits[name] / wanted.budget.limits[name]
        return (
            f"its warm-up is a share of the budget, and would have been longer: {rates}. Keep its length "
            f"with --set training.schedule.warmup={fitting:.10g}."
        )
    else:
        why = (
            f"training.schedule {kind} had already lowered the learning rate for the shorter budget: {rates}."
        )
    return (
        f"{why} Train it anew with another --out. Runs that are to be continued later need "
        "training.schedule=constant, or wsd and a checkpoint from before its decay."
    )
