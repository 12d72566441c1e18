"""`attnlab run STUDY --plan`: time and power, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from attnlab.cli.console import emit, err, out
from attnlab.documents.nodes import Inline, Node, Sentence, Table, strong
from attnlab.documents.numbers import duration

if TYPE_CHECKING:
    from attnlab.studies.plan import StudyPlan
    from attnlab.studies.resolved import Resolved


def show_plan(resolved: Resolved, *, jobs: int, engine: str, json: bool) -> None:
    """How long each arm and the whole study take here, and the minimum detectable effect."""
    from attnlab.studies.live_view import live
    from attnlab.studies.plan import plan

    with live(err) as view:
        made = plan(resolved, jobs=jobs, engine=engine, view=view)
    if json:
        return emit({name: known(value) for name, value in asdict(made).items()})
    out.show(*plan_nodes(made, resolved))
    return None


def plan_nodes(made: StudyPlan, resolved: Resolved) -> Iterator[Node]:
    """The time of every arm and of the whole, and what could be found."""
    from attnlab.studies.runner import told_jobs

    rows: list[tuple[Inline, ...]] = [
        (f"{name} (trained first, once)", duration(seconds, 0) if math.isfinite(seconds) else "")
        for name, seconds in made.starts.items()
    ]
    for arm, seconds in made.runs.items():
        rows.append((arm, duration(seconds, 0) if math.isfinite(seconds) else made.reasons.get(arm, "")))
    yield Table(("arm", "one run"), rows, title=f"{resolved.study.name}, {made.seeds} seeds")
    tuning = f" (and {made.tuning_runs} runs to choose learning rates)" if made.tuning_runs else ""
    yield Sentence((f"The whole study{tuning}: about ", strong(duration(made.seconds, 0)), "."))
    runs = len(resolved.configs) * made.seeds + made.tuning_runs
    yield Sentence(told_jobs(runs, made.jobs, made.threads))
    yield detectable_sentence(made, resolved)
    yield Sentence("Nothing was trained: times are extrapolated from a few steps of each arm.", "fine")


def detectable_sentence(made: StudyPlan, resolved: Resolved) -> Sentence:
    """What the study could find."""
    if len(resolved.study.arms) == 1:
        return Sentence(
            "With one arm there is nothing to compare: it gets intervals over seeds, and no verdict."
        )
    if math.isnan(made.smallest):
        return Sentence(
            "With one seed no difference can be shown: seed noise is unknown. Use at least two (--seeds 2)."
        )
    effect = f"Minimum detectable effect on {resolved.study.metric} at 80% power: "
    if made.told_by:
        return Sentence((effect, strong(f"{made.smallest:.3g}"), f" (spread taken from {made.told_by})."))
    follows = " of the paired differences between seeds; a first run (--quick) estimates that SD."
    return Sentence((effect, strong(f"{made.smallest:.1f} × SD"), follows))


def known(value: object) -> object:
    """JSON knows no nan."""
    if isinstance(value, dict):
        return {name: known(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
