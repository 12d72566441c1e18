"""`attnlab run STUDY --plan`: time and power, before anything is trained."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from attnlab.cli.console import emit, err, out
from attnlab.runs.display import escape

if TYPE_CHECKING:
    from attnlab.studies.plan import StudyPlan
    from attnlab.studies.resolved import Resolved


def show_plan(resolved: Resolved, *, jobs: int, engine: str, json: bool) -> None:
    """How long each arm and the whole study take here, and the minimum detectable effect."""
    from attnlab.studies.live_view import live
    from attnlab.studies.plan import plan
    from attnlab.studies.runner import told_jobs

    with live(err) as view:
        made = plan(resolved, jobs=jobs, engine=engine, view=view)
    if json:
        return emit({name: known(value) for name, value in asdict(made).items()})
    table = Table("arm", "one run", title=f"{resolved.study.name}, {made.seeds} seeds", title_justify="left")
    for name, seconds in made.starts.items():
        table.add_row(f"{name} (trained first, once)", duration(seconds) if math.isfinite(seconds) else "")
    for arm, seconds in made.runs.items():
        reason = escape(made.reasons.get(arm, ""))
        table.add_row(escape(arm), duration(seconds) if math.isfinite(seconds) else reason)
    out.print(table)
    tuning = f" (and {made.tuning_runs} runs to choose learning rates)" if made.tuning_runs else ""
    out.print(f"The whole study{tuning}: about [bold]{duration(made.seconds)}[/].", highlight=False)
    runs = len(resolved.configs) * made.seeds + made.tuning_runs
    out.print(told_jobs(runs, made.jobs, made.threads), highlight=False)
    out.print(seen(made, resolved), highlight=False)
    out.print("Nothing was trained: times are extrapolated from a few steps of each arm.", style="dim")
    return None


def seen(made: StudyPlan, resolved: Resolved) -> str:
    """What the study could find, in words."""
    if len(resolved.study.arms) == 1:
        return "With one arm there is nothing to compare: it gets intervals over seeds, and no verdict."
    if math.isnan(made.smallest):
        return (
            "With one seed no difference can be shown: seed noise is unknown. Use at least two (--seeds 2)."
        )
    metric = resolved.study.metric
    if made.told_by:
        return (
            f"Minimum detectable effect on {metric} at 80 % power: [bold]{made.smallest:.3g}[/] "
            f"(spread taken from {escape(made.told_by)})."
        )
    return (
        f"Minimum detectable effect on {metric} at 80 % power: [bold]{made.smallest:.1f} × SD[/] of the "
        "paired differences between seeds; a first run (--quick) estimates that SD."
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
