"""What an arm has beside its change: more steps, parameters or tuning than its baseline, several changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import fmean
from typing import TYPE_CHECKING

from attnlab.config.schema import SECTIONS, Config
from attnlab.evaluation.comparability import Basis, tokens_by_start
from attnlab.evaluation.comparison import Inequality, Unequal
from attnlab.runs.result import RunResult

if TYPE_CHECKING:
    from attnlab.studies.spec import Study

TOPICS: Mapping[str, tuple[str, ...]] = {
    "size": ("parameters", "flops", "seconds"),
    "budget": ("steps", "tokens", "flops", "seconds"),
    "speed": ("flops", "seconds"),
    "learning_rate": ("learning_rate",),
    "tuning": ("tuning",),
    "settings": ("settings",),
}
"""What a study may be `about`, and which differences between its arms that makes the point of it."""

TOLERANCES = {"steps": 1.01, "tokens": 1.01, "parameters": 1.01, "flops": 1.05}
"""The ratios up to which counts are equal enough; a rule of attention alone moves FLOPs by a few percent."""
AS_BUSY = 0.1
"""Shares of their time that runs waited for a processor, up to which the machine was as busy for both."""
SLOWER, LEAST_SECONDS = 1.5, 1.0
"""Times vary with the machine's load: they differ where each seed's do, by this ratio and these seconds."""


def inequalities(
    study: Study, arm: str, runs: Sequence[RunResult], baseline: Sequence[RunResult], tried: Mapping[str, int]
) -> tuple[Inequality, ...]:
    """How an arm differs from its baseline beyond what the study is about.

    `runs` and `baseline` have the same seeds; `tried` is how many settings were tried for each arm.
    """
    other = study.baseline_of(arm)
    declared = {name for topic in study.about for name in TOPICS[topic]}
    changed = changed_settings(study, arm)
    unequal = []
    if len(changed) > 1 and "settings" not in declared:
        unequal.append(Inequality(Unequal.SETTINGS, names=tuple(changed)))
    counts = [name for name in TOLERANCES if name not in declared and differs(runs, baseline, name)]
    unequal += [Inequality(Unequal.COUNT, mean(runs, name), mean(baseline, name), (name,)) for name in counts]
    if "seconds" not in declared:
        unequal += time_inequality(runs, baseline)
    if "learning_rate" not in declared and not study.learning_rates:
        unequal += rate_inequality(study, arm, other)
    if runs and baseline and tokens_by_start(Basis.of(runs[0]), Basis.of(baseline[0]), changed):
        unequal.append(Inequality(Unequal.TOKENIZER))
    if "tuning" not in declared and tried.get(arm, 0) != tried.get(other, 0):
        unequal.append(Inequality(Unequal.TUNING, tried.get(arm, 0), tried.get(other, 0)))
    return tuple(unequal)


def changed_settings(study: Study, arm: str) -> list[str]:
    """The settings that an arm and its baseline name and that differ between them: "model.attention"."""
    other = study.baseline_of(arm)
    named = {setting(key) for side in (arm, other) for key in study.arms[side]}
    one, two = (settings(study.config(side)) for side in (arm, other))
    return [name for name in one if name in named and one[name] != two[name]]


def setting(key: str) -> str:
    """The setting that a key is of: an option of a choice, or a limit of the budget, is a part of one."""
    section, _, rest = key.partition(".")
    return f"{section}.{rest.partition('.')[0]}" if section in SECTIONS else section


def settings(config: Config) -> dict[str, object]:
    """Every setting by its dotted name."""
    values: dict[str, object] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name in SECTIONS:
            values |= {f"{field.name}.{inner.name}": getattr(value, inner.name) for inner in fields(value)}
        else:
            values[field.name] = value
    return values


def differs(runs: Sequence[RunResult], baseline: Sequence[RunResult], name: str) -> bool:
    """Whether the means of both are known and further apart than the tolerance."""
    one, two = mean(runs, name), mean(baseline, name)
    return bool(one and two) and max(one / two, two / one) > TOLERANCES[name]


def mean(runs: Sequence[RunResult], name: str) -> float:
    return fmean(getattr(run, name) for run in runs) if runs else 0.0


def time_inequality(runs: Sequence[RunResult], baseline: Sequence[RunResult]) -> list[Inequality]:
    if not as_busy(runs, baseline) or not alike_machines(runs, baseline):
        return []  # said of the study, once
    pairs = list(zip(by_seed(runs), by_seed(baseline), strict=True))
    for first, last in ((0, 1), (1, 0)):
        longer = [pair[first] - pair[last] > LEAST_SECONDS for pair in pairs]
        if pairs and all(longer) and all(pair[first] > SLOWER * pair[last] for pair in pairs):
            one, two = (fmean(side) for side in zip(*pairs, strict=True))
            return [Inequality(Unequal.TIME, one, two)]
    return []


def waiting(runs: Sequence[RunResult]) -> float | None:
    """The mean share of their time that runs waited for a processor; None where it is not known."""
    shares = [run.waited for run in runs if run.waited is not None]
    return fmean(shares) if shares and len(shares) == len(runs) else None


def as_busy(runs: Sequence[RunResult], baseline: Sequence[RunResult]) -> bool:
    """Whether the machine was as busy for both, so that their times mean the same; taken so if not known."""
    one, two = waiting(runs), waiting(baseline)
    return not runs or not baseline or one is None or two is None or abs(one - two) <= AS_BUSY


def machine_kinds(run: RunResult) -> list[str]:
    """The processors and accelerators that a run was computed by, whatever their machines are called."""
    kinds = [machine["accelerator"] or machine["processor"] for machine in run.machines]
    return sorted(dict.fromkeys(kinds))


def alike_machines(runs: Sequence[RunResult], baseline: Sequence[RunResult]) -> bool:
    """Whether each seed's runs of both were computed by one kind of machine, so that their times mean the
    same; taken so where it is not known."""
    others = {run.seed: machine_kinds(run) for run in baseline}
    pairs = [(machine_kinds(run), others[run.seed]) for run in runs if run.seed in others]
    return all(not one or not two or (one == two and len(one) == 1) for one, two in pairs)


def by_seed(runs: Sequence[RunResult]) -> list[float]:
    return [run.seconds for run in sorted(runs, key=lambda run: run.seed)]


def rate_inequality(study: Study, arm: str, other: str) -> list[Inequality]:
    one, two = (study.config(side).training.optimizer.options.get("learning_rate") for side in (arm, other))
    if not (one and two) or one == two:
        return []
    return [Inequality(Unequal.RATE, one, two)]
