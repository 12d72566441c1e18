"""`attnlab run STUDY --plan`: time and power, before anything is trained."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from attnlab.cli.console import emit, out

if TYPE_CHECKING:
    from attnlab.studies.plan import StudyPlan
    from attnlab.studies.resolved import Resolved


def show_plan(resolved: Resolved, *, jobs: int, json: bool) -> None:
    """How long each arm takes here, the whole study, and what it could see."""
    from attnlab.cli.live import live
    from attnlab.studies.plan import plan

    with live() as view:
        made = plan(resolved, jobs=jobs, view=view)
    if json:
        return emit({name: known(value) for name, value in asdict(made).items()})
    table = Table("arm", "one run", title=f"{resolved.study.name}, {made.seeds} seeds", title_justify="left")
    for name, seconds in made.starts.items():
        table.add_row(f"{name} (trained first, once)", duration(seconds) if math.isfinite(seconds) else "")
    for arm, seconds in made.runs.items():
        table.add_row(arm, duration(seconds) if math.isfinite(seconds) else escape(made.reasons.get(arm, "")))
    out.print(table)
    tuning = f" (and {made.tuning_runs} runs to choose learning rates)" if made.tuning_runs else ""
    out.print(
        f"The whole study{tuning}, {made.jobs} at once: about [bold]{duration(made.seconds)}[/].",
        highlight=False,
    )
    out.print(seen(made, resolved), highlight=False)
    out.print("Nothing was trained: these are a few steps of each arm, timed.", style="dim")
    return None


def seen(made: StudyPlan, resolved: Resolved) -> str:
    """What the study could find, in words."""
    if len(resolved.study.arms) == 1:
        return (
            "With one arm there is nothing to compare: its numbers get intervals over seeds, and no verdict."
        )
    if math.isnan(made.smallest):
        return "With one seed it can show no difference at all: the noise of training stays unknown."
    metric = resolved.study.metric
    if made.told_by:
        return (
            f"The smallest difference in {metric} that it would find four times in five: "
            f"[bold]{made.smallest:.3g}[/], by the spread that {escape(made.told_by)} found."
        )
    return (
        f"The smallest difference in {metric} that it would find four times in five is "
        f"[bold]{made.smallest:.1f} times[/] the spread of a difference from seed to seed; what that spread "
        "is, a first run (--quick) tells."
    )


def duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return (
        f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    )


def known(value: object) -> object:
    """JSON knows no nan."""
    if isinstance(value, dict):
        return {name: known(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
