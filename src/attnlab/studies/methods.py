"""Methods of adapting one model to one table of rows, compared as arms of a study, with a recommendation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from attnlab.config.files import to_json
from attnlab.config.schema import Config
from attnlab.config.values import Choice, ConfigError, Settings, choices_of
from attnlab.evaluation.comparison import Comparison, Verdict
from attnlab.metrics.metric import known
from attnlab.model.adapters import ADAPTERS
from attnlab.session.adapting import adapting_config
from attnlab.studies.outcome import ArmOutcome, ArmState, StudyOutcome
from attnlab.studies.spec import Study
from attnlab.tasks import TASKS

SEEDS = 3
EXTRAS = "attnlab.studies.builtin.adaptation:Methods"


def methods_of(adapter: str) -> list[str]:
    """The methods of a list such as `full,lora(rank=8, alpha=16),head`; one where it is no list."""
    return [str(choice) for choice in choices_of(f"[{adapter}]") or [adapter]]


def methods_study(
    start: str | Path,
    adapters: Sequence[Choice | str],
    *,
    data: str | Path,
    task: str = "",
    reading: Mapping[str, Any] | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),
    seeds: int = SEEDS,
) -> Study:
    """A study of several methods on the same rows, each with its own usual rate and epochs; the first is the
    baseline. `reading` and `set` are those of `adapting_config`."""
    chosen = [ADAPTERS.read(adapter, "adapter") for adapter in adapters]
    names = [adapter.kind for adapter in chosen]
    if len(names) < 2:
        raise ConfigError("Give at least two methods to compare, as in full,lora,head.")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(
            f"{', '.join(sorted(twice))} is among the methods more than once; give each once (options of one "
            "method are compared by a study of your own: attnlab run FILE.toml)."
        )
    settings = set if isinstance(set, Mapping) else list(set)
    configs = {
        adapter.kind: adapting_config(
            start, data=data, adapter=adapter, task=task, reading=reading, set=settings
        )
        for adapter in chosen
    }
    base = configs[names[0]]
    return Study(
        name=f"{Path(data).stem}-methods",
        question=f"Which method adapts {start} to {Path(data).name} best?",
        base=to_json(base),
        arms={
            name: changes(base, config) or {"adapter": to_json(base)["adapter"]}
            for name, config in configs.items()
        },
        seeds=seeds,
        metric=TASKS[base.task.kind].metrics[0],
        about=("settings", "size", "budget", "learning_rate"),
        collapse="result",
        probes=(),
        sentence="",
        extras=EXTRAS,
    )


def changes(base: Config, config: Config) -> Settings:
    """The settings in which a config differs from the base, one or two names deep; its method always."""
    ours, theirs = to_json(base), to_json(config)
    changed: Settings = {"adapter": theirs["adapter"]}
    for section, settings in theirs.items():
        if section in ("data", "training", "model"):
            changed |= {
                f"{section}.{name}": value
                for name, value in settings.items()
                if value != ours[section].get(name)
            }
        elif settings != ours[section]:
            changed[section] = settings
    return changed


# ---------------------------------------------------------------- one recommendation
class Ground(StrEnum):
    """Why a method is recommended."""

    BETTER = "better"
    AS_GOOD = "as_good"
    BEST = "best"
    HIGHEST = "highest"
    MAJORITY = "majority"
    NONE = "none"


@dataclass(frozen=True)
class Recommendation:
    """A method, and why: better than the baseline, no different from it within the margin at less cost,
    better than all others, or the best mean with no difference shown. None where no method is better than
    the most frequent label, or no numbers can be used.

    `share` and `times` are its tuned parameters and its seconds, of the baseline's.
    """

    ground: Ground
    method: str = ""
    baseline: str = ""
    metric: str = ""
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    share: float | None = None
    times: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def recommendation(outcome: StudyOutcome) -> Recommendation:
    """The method to use, by the paired comparisons of all others with the baseline."""
    metric, first = outcome.study.metric, outcome.study.baseline
    usable = {
        arm.name: arm
        for arm in outcome.arms
        if arm.state is ArmState.FINISHED and metric in arm.scores and math.isfinite(arm.scores[metric].value)
    }
    knowing = {name: arm for name, arm in usable.items() if not all_at_majority(outcome, name)}
    if not knowing:
        return Recommendation(Ground.MAJORITY if usable else Ground.NONE, metric=metric)
    usable = knowing
    sign = -1 if any(m.name == metric and m.lower_is_better for m in outcome.study.metrics) else 1
    best = max(usable.values(), key=lambda arm: sign * arm.scores[metric].value)
    compared = {c.arm: c for c in outcome.comparisons if c.metric == metric and c.arm in usable}
    by_verdict = {verdict: [c for c in compared.values() if c.verdict is verdict] for verdict in Verdict}
    if first not in usable or not compared:
        return Recommendation(Ground.HIGHEST, best.name, first, metric)
    if better := by_verdict[Verdict.BETTER]:
        chosen = max(better, key=lambda c: sign * c.difference)
        return _of(chosen, Ground.BETTER, usable)
    same = [*by_verdict[Verdict.SAME], *by_verdict[Verdict.IDENTICAL]]
    cheaper = [c for c in same if cost(usable[c.arm]) < cost(usable[first])]
    if cheaper:
        return _of(min(cheaper, key=lambda c: cost(usable[c.arm])), Ground.AS_GOOD, usable)
    if len(by_verdict[Verdict.WORSE]) == len(compared):
        return Recommendation(Ground.BEST, first, first, metric)
    return Recommendation(Ground.HIGHEST, best.name, first, metric)


def _of(comparison: Comparison, ground: Ground, arms: Mapping[str, ArmOutcome]) -> Recommendation:
    arm, first = arms[comparison.arm], arms[comparison.baseline]
    tuned = (arm.tuned_parameters or 0) / (first.tuned_parameters or math.nan)
    times = cost(arm) / cost(first)
    return Recommendation(
        ground,
        *(arm.name, first.name, comparison.metric, comparison.difference, comparison.low, comparison.high),
        margin=comparison.margin,
        share=known(tuned),
        times=known(times),
    )


def all_at_majority(outcome: StudyOutcome, arm: str) -> bool:
    """Whether every run of an arm ended at the share of the most frequent label."""
    seeds, trained = outcome.at_majority.get(arm, ([], 0))
    return bool(seeds) and len(seeds) == trained


def cost(arm: ArmOutcome) -> float:
    """Seconds of its training steps; a method without them is never the cheaper one."""
    return arm.scores["seconds"].value if "seconds" in arm.scores else math.inf
